// Keyed random numbers: every draw is a pure function of (seed, purpose), so the result does not depend on
// the process or the time of the draw. SplitMix64 (Steele, Lea, Flood 2014) over a mixed key.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/everywhere.hpp"

namespace rekindle {

REKINDLE_EVERYWHERE constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// The purpose of a stream of draws; streams of one seed with different purposes are independent.
enum class Draws : std::uint64_t { kInit = 1, kOrder, kAugment, kDropout, kMakeData, kEvaluate };

// The key of one stream: (seed, purpose, e.g. step, micro-batch).
constexpr std::uint64_t stream_key(std::uint64_t seed, Draws purpose,
                                   std::initializer_list<std::uint64_t> parts = {}) {
  std::uint64_t key = mix64(seed + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(purpose));
  for (const std::uint64_t part : parts) key = mix64(key + 0x9e3779b97f4a7c15ULL * (part + 1));
  return key;
}

class Rng {
 public:
  explicit constexpr Rng(std::uint64_t key) : state_(key) {}

  constexpr std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }

  // Uniform in [0, n), n > 0, without bias (rejection).
  constexpr std::uint64_t below(std::uint64_t n) {
    const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % n;
    std::uint64_t x = next();
    while (x >= limit) x = next();
    return x % n;
  }

  // Uniform in [0, 1), 24 bits: exact in a float.
  constexpr float unit() { return static_cast<float>(next() >> 40) * 0x1.0p-24F; }

 private:
  std::uint64_t state_;
};

}  // namespace rekindle
