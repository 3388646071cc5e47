// Internal to the module: a model's state on its device, with the update: trainer::HostState or
// trainer::DeviceState, as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "model/compute_device.hpp"
#include "trainer/arenas.hpp"
#include "trainer/state_layout.hpp"
#include "trainer/update_plan.hpp"

namespace rekindle::model {

class StateMemory {
 public:
  virtual ~StateMemory() = default;

  // Flat float32 tensors on the device, by the layout. `average` is undefined if there is none.
  virtual at::Tensor values() = 0;
  virtual at::Tensor average() = 0;
  virtual bool averaged() = 0;  // there is an average, and an update has given it values
  // As those of trainer::Task.
  virtual checkpoint::State state() = 0;
  virtual trainer::Arenas arenas() = 0;
  virtual Status download() = 0;
  virtual Status upload() = 0;
  virtual Result<std::optional<Hash128>> digest() { return std::nullopt; }
  // As those of trainer::HostState.
  virtual void propose(std::size_t tensor, const at::Tensor& value) = 0;  // on the device
  virtual void update(std::size_t first, std::span<const float> sum, const optim::Step& step) = 0;
  virtual Status finish_update() = 0;
};

Result<std::unique_ptr<StateMemory>> make_host_memory(const trainer::StateLayout& layout,
                                                      const trainer::UpdateOptions& options);
Result<std::unique_ptr<StateMemory>> make_device_memory(const trainer::StateLayout& layout,
                                                        const trainer::UpdateOptions& options,
                                                        const ComputeDevice& device);

}  // namespace rekindle::model
