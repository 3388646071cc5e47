// XXH3: fast, not cryptographic. It detects damage, but not forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace rekindle {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  std::string hex() const;  // 32 lower-case digits, high word first
};

std::uint64_t hash64(std::span<const std::byte> bytes);  // XXH3-64, seed 0
Hash128 hash128(std::span<const std::byte> bytes);       // XXH3-128, seed 0
std::string hex64(std::uint64_t value);                  // 16 lower-case digits

// XXH3-128 of a stream of pieces; the pieces' borders do not matter.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(Hasher128&&) noexcept;
  Hasher128& operator=(Hasher128&&) noexcept;
  void update(std::span<const std::byte> bytes);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rekindle
