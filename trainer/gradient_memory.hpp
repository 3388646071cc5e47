// The arithmetic of the step loop on gradients and their sums, on the device where they are.
#pragma once

#include <span>
#include <vector>

#include "base/result.hpp"
#include "device/device.hpp"
#include "exchange/exchange.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

class GradientMemory {
 public:
  // `place`: Task::place().
  explicit GradientMemory(device::Place place) : place_(place) {}

  void add(std::span<float> to, std::span<const float> from);  // to += from
  void copy(std::span<float> to, std::span<const float> from);
  // The 2-norm of the elements in `range`. On a GPU it has other bits than on a CPU, the same for any pieces.
  Result<double> norm(const std::vector<exchange::SumPiece>& pieces, FloatRange range);
  // The values for the host, when everything before has run. Valid until the next call.
  Result<std::span<const float>> on_host(std::span<const float> values);

 private:
  device::Place place_;
  std::vector<float> copy_;
  device::Memory sums_;  // of squares
};

}  // namespace rekindle::trainer
