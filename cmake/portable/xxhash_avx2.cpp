// XXH3 with AVX2: compiled with -mavx2, called only where the processor has it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "xxhash_avx2.hpp"

std::uint64_t rekindle_xxh3_64_avx2(const void* bytes, std::size_t count) {
  return XXH3_64bits(bytes, count);
}

void rekindle_xxh3_128_avx2(const void* bytes, std::size_t count, std::uint64_t* low, std::uint64_t* high) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, count);
  *low = hash.low64;
  *high = hash.high64;
}

int rekindle_xxh3_update_avx2(void* state, const void* bytes, std::size_t count) {
  return XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, count);
}
