// What runs on a device: plain structs with pointers into its memory. Every kernel is elementwise, so it may
// be split anywhere, and its bits are those of the host (device/arithmetic.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "device/arithmetic.hpp"

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

// The sum of partial sums in a fixed order: additions in post-order, as in exchange/sum.cpp. Operand k of
// `additions` is partial k if below `partials`, and otherwise the result of an earlier addition (from
// `partials` on). `to` may be one of the partials.
struct TreeSum {
  struct Addition {
    std::uint16_t left = 0, right = 0;
  };
  float* to = nullptr;
  std::array<const float*, kMostOperands> from = {};
  std::array<Addition, kMostOperands> additions = {};
  int partials = 0, count_of_additions = 0;
  std::size_t count = 0;
};

// One element of a TreeSum.
REKINDLE_EVERYWHERE float tree_sum(const TreeSum& k, std::size_t element) {
  float value[2 * kMostOperands];
  for (int part = 0; part < k.partials; ++part) value[part] = k.from[part][element];
  for (int at = 0; at < k.count_of_additions; ++at)
    value[k.partials + at] = value[k.additions[at].left] + value[k.additions[at].right];
  return value[k.partials + k.count_of_additions - 1];
}

struct SgdUpdate {
  SgdNumbers numbers;
  float* parameters = nullptr;
  float* momentum = nullptr;  // nullptr: without
  const float* sum = nullptr;
  std::size_t count = 0;
};

using Kernel = std::variant<Fill, AddInto, TreeSum, SgdUpdate>;

// Runs a kernel now, on the host.
void run_on_host(const Kernel& kernel);

}  // namespace rekindle::device
