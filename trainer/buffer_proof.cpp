#include "trainer/buffer_proof.hpp"

#include "base/hash.hpp"

namespace rekindle::trainer {
namespace {

constexpr std::size_t kParts = kProofFloats / 2;

}  // namespace

void write_proof(std::span<const std::byte> value, std::span<float, kProofFloats> to) {
  const Hash128 hash = hash128(value);
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<float>((hash.low >> (6 * i)) & 63);
    to[i] = part;
    to[kParts + i] = part * part;
  }
}

bool all_agree(std::span<const float, kProofFloats> sum, std::size_t count) {
  for (std::size_t i = 0; i < kParts; ++i) {
    const double total = sum[i];
    if (static_cast<double>(count) * static_cast<double>(sum[kParts + i]) != total * total) return false;
  }
  return true;
}

}  // namespace rekindle::trainer
