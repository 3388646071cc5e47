// What runs on a device: plain structs with pointers into its memory. Every kernel but SquaresInto and
// DigestInto is elementwise, so it may be split anywhere, and its bits are those of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/everywhere.hpp"
#include "base/random.hpp"
#include "optim/formulas.hpp"

namespace rekindle::device {

inline constexpr int kMostOperands = 256;

struct Fill {
  float* to = nullptr;
  float value = 0;
  std::size_t count = 0;
};

// to[i] = to[i] + from[i]
struct AddInto {
  float* to = nullptr;
  const float* from = nullptr;
  std::size_t count = 0;
};

// to[i] = factor * from[i]
struct Scale {
  float* to = nullptr;
  const float* from = nullptr;
  float factor = 1;
  std::size_t count = 0;
};

// to[i] = moved_towards(to[i], from[i], weight), see optim/average.hpp
struct MoveTowards {
  float* to = nullptr;
  const float* from = nullptr;
  float weight = 0;
  std::size_t count = 0;
};

// The sum of partial sums in a fixed order: additions in post-order, as in exchange/sum.cpp. A stack takes
// one partial after the other; after partial k, merges[k] times the two upper values become their sum. One
// value is left. `to` may be one of the partials.
struct TreeSum {
  float* to = nullptr;
  // Plain arrays: code for GPUs cannot call members of std::array.
  const float* from[kMostOperands] = {};
  std::uint8_t merges[kMostOperands] = {};
  int partials = 0;
  std::size_t count = 0;
};

// One element of a TreeSum. A tree over kMostOperands partials leaves no more values waiting than it has
// levels.
REKINDLE_EVERYWHERE float tree_sum(const TreeSum& k, std::size_t element) {
  float waiting[16];
  int height = 0;
  float value = k.from[0][element];
  for (int part = 1; part < k.partials; ++part) {
    waiting[height++] = value;
    value = k.from[part][element];
    // Only as many values are merged as are waiting.
    for (int merge = 0; merge < k.merges[part]; ++merge)
      value = waiting[--height] + value;  // NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult)
  }
  return value;
}

// An optimizer's update of `count` elements.
struct Update {
  optim::Formula formula;
  float* parameters = nullptr;
  std::array<float*, 2> states = {};
  const float* sum = nullptr;
  std::size_t count = 0;
};

// The squared norm of an array that comes in pieces: element i of the array is added to sum i % kNormSums, in
// the order of i, so that the sums do not depend on the pieces. `first` is the index of from[0]. The sums are
// zero at first.
inline constexpr std::size_t kNormSums = std::size_t{1} << 16;
struct SquaresInto {
  double* sums = nullptr;
  const float* from = nullptr;
  std::size_t first = 0, count = 0;
};

// What SquaresInto does for one sum.
REKINDLE_EVERYWHERE void add_squares(const SquaresInto& k, std::size_t sum) {
  double all = k.sums[sum];
  for (std::size_t i = (sum + kNormSums - k.first % kNormSums) % kNormSums; i < k.count; i += kNormSums) {
    const double value = k.from[i];
    all += value * value;
  }
  k.sums[sum] = all;
}

// Many short arrays at once. Each gets factor * from[i], or the words of `from` as they are.
inline constexpr int kMostPieces = 128;
struct Pieces {
  struct Piece {
    float* to = nullptr;
    const float* from = nullptr;
    std::uint32_t count = 0;
    bool scaled = true;
  };
  Piece piece[kMostPieces] = {};
  int pieces = 0;
  float factor = 1;
};

// A digest of bytes wherever they are: two sums over their words of 4 bytes, each mixed with its position, so
// neither the order of the additions nor the pieces matter. It finds accidents, and is no hash for files.
// `first` is the position of from[0], which is at a multiple of 4 bytes; a last word may be shorter. The sums
// are zero at first.
struct DigestInto {
  std::uint64_t* sums = nullptr;  // 2
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::uint64_t first = 0;

  REKINDLE_EVERYWHERE std::size_t words() const { return (bytes + 3) / 4; }
};

// What one word adds to the sums.
REKINDLE_EVERYWHERE void add_word(const DigestInto& k, std::size_t i, std::uint64_t& a, std::uint64_t& b) {
  std::uint32_t word = 0;
  if (4 * (i + 1) <= k.bytes) {
    word = reinterpret_cast<const std::uint32_t*>(k.from)[i];
  } else {
    for (std::size_t byte = 4 * i; byte < k.bytes; ++byte)
      word |= static_cast<std::uint32_t>(k.from[byte]) << (8 * (byte - 4 * i));
  }
  const std::uint64_t at = (k.first + i + 1) * 0x9e3779b97f4a7c15U;
  a += mix64(at ^ word);
  b += mix64(at + (std::uint64_t{word} << 32) + 1);
}

using Kernel =
    std::variant<Fill, AddInto, Scale, MoveTowards, TreeSum, Update, SquaresInto, Pieces, DigestInto>;

// Runs a kernel now, on the host.
void run_on_host(const Kernel& kernel);

}  // namespace rekindle::device
