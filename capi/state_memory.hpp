// The state of a ForeignTask, and the ends of its gradients: in host memory, or on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "capi/compute_device.hpp"
#include "checkpoint/state.hpp"
#include "optim/optimizer.hpp"
#include "trainer/arenas.hpp"
#include "trainer/state_layout.hpp"
#include "trainer/update_plan.hpp"

namespace rekindle::capi {

// What a micro-batch gave.
struct Computed {
  std::span<const std::uint8_t>
      received;                          // whether a parameter got a gradient, which is in its place by then
  std::span<const void* const> buffers;  // the new value of each buffer
};

class StateMemory {
 public:
  virtual ~StateMemory() = default;

  virtual const trainer::StateLayout& layout() const = 0;
  // As those of trainer::Task.
  virtual checkpoint::State state() = 0;
  virtual trainer::Arenas arenas() = 0;
  virtual Status download() = 0;
  virtual Status upload() = 0;
  virtual Result<std::optional<Hash128>> digest() { return std::nullopt; }
  virtual void update(std::size_t first, std::span<const float> sum, const optim::Step& step) = 0;
  virtual Status finish_update() = 0;
  // As those of trainer::HostState, on the device.
  virtual std::span<float> values() = 0;
  virtual std::span<float> average() = 0;
  virtual bool averaged() = 0;

  // Returns when the other language may use the memory: on a GPU at once, because its operations are on the
  // same stream.
  virtual Status settle() = 0;
  // Completes the gradient of a micro-batch: writes the header and the buffers, and clears everything else.
  virtual Status complete(std::span<float> gradient, const Computed& computed) = 0;

  // ---- for an optimizer of the other language, which needs the whole sum of a step ----

  virtual void keep_sum(std::size_t first, std::span<const float> sum) = 0;
  // The sum with the mean gradients of the parameters, and which of them got one.
  virtual Result<std::span<float>> mean_gradient(float scale, std::span<std::uint8_t> received) = 0;
  // Updates everything but the parameters from the sum.
  virtual void update_others(const optim::Step& step) = 0;
};

Result<std::unique_ptr<StateMemory>> make_host_memory(const trainer::StateLayout& layout,
                                                      const trainer::UpdateOptions& options);
// `device` lives longer.
Result<std::unique_ptr<StateMemory>> make_device_memory(const trainer::StateLayout& layout,
                                                        const trainer::UpdateOptions& options,
                                                        const ComputeDevice& device);

}  // namespace rekindle::capi
