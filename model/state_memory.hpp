// Internal to the module: a model's state on its device, with the update. On a CPU this is
// trainer::HostState; on a GPU the state is there, and the host has a copy for checkpoints and other
// trainers.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "base/result.hpp"
#include "checkpoint/state.hpp"
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
  // As those of trainer::Task.
  virtual checkpoint::State state() = 0;
  virtual trainer::Arenas arenas() = 0;
  virtual void download() = 0;
  virtual void upload() = 0;
  // As those of trainer::HostState.
  virtual void propose(std::size_t tensor, const at::Tensor& host_value) = 0;
  virtual void update(std::size_t first, std::span<const float> sum, const optim::Step& step) = 0;
  virtual Status finish_update() = 0;
};

Result<std::unique_ptr<StateMemory>> make_host_memory(const trainer::StateLayout& layout,
                                                      const trainer::UpdateOptions& options);
// For a GPU, and for tests on any device.
Result<std::unique_ptr<StateMemory>> make_device_memory(const trainer::StateLayout& layout,
                                                        const trainer::UpdateOptions& options,
                                                        at::Device device);

}  // namespace rekindle::model
