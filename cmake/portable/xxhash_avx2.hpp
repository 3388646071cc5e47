#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
std::uint64_t rekindle_xxh3_64_avx2(const void* bytes, std::size_t count);
void rekindle_xxh3_128_avx2(const void* bytes, std::size_t count, std::uint64_t* low, std::uint64_t* high);
int rekindle_xxh3_update_avx2(void* state, const void* bytes, std::size_t count);  // state: XXH3_state_t
}
