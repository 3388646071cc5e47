// The functions of xxh_x86dispatch.h that base/hash.cpp calls: Debian's libxxhash.so has them, libxxhash.a
// has not.
#include <xxhash.h>

#include "xxhash_avx2.hpp"

static bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

extern "C" {

XXH64_hash_t XXH3_64bits_dispatch(const void* input, std::size_t len) {
  return has_avx2() ? rekindle_xxh3_64_avx2(input, len) : XXH3_64bits(input, len);
}

XXH128_hash_t XXH3_128bits_dispatch(const void* input, std::size_t len) {
  if (!has_avx2()) return XXH3_128bits(input, len);
  XXH128_hash_t hash;
  rekindle_xxh3_128_avx2(input, len, &hash.low64, &hash.high64);
  return hash;
}

XXH_errorcode XXH3_128bits_update_dispatch(XXH3_state_t* state, const void* input, std::size_t len) {
  if (!has_avx2()) return XXH3_128bits_update(state, input, len);
  return static_cast<XXH_errorcode>(rekindle_xxh3_update_avx2(state, input, len));
}
}
