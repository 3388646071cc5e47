// The state of a model on a GPU, as tensors.
#include <map>
#include <utility>

#include "model/state_memory.hpp"
#include "trainer/device_state.hpp"

namespace rekindle::model {
namespace {

class DeviceMemory final : public StateMemory {
 public:
  DeviceMemory(std::unique_ptr<trainer::DeviceState> state, const ComputeDevice& device)
      : state_(std::move(state)),
        values_(device.tensor(state_->values())),
        average_(device.tensor(state_->average())) {}

  at::Tensor values() override { return values_; }
  at::Tensor average() override { return average_; }
  bool averaged() override { return state_->averaged(); }
  checkpoint::State state() override { return state_->state(); }
  trainer::Arenas arenas() override { return {}; }
  Status download() override { return state_->download(); }
  Status upload() override { return state_->upload(); }
  Result<std::optional<Hash128>> digest() override { return state_->digest(); }
  void propose(std::size_t tensor, const at::Tensor& value) override {
    proposed_[tensor] = value;
    state_->propose(tensor, {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()});
  }
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    state_->update(first, sum, step);
  }
  Status finish_update() override {
    Status finished = state_->finish_update();
    proposed_.clear();
    return finished;
  }

 private:
  std::unique_ptr<trainer::DeviceState> state_;
  at::Tensor values_, average_;
  std::map<std::size_t, at::Tensor> proposed_;  // keeps the memory: only of the last micro-batch
};

}  // namespace

Result<std::unique_ptr<StateMemory>> make_device_memory(const trainer::StateLayout& layout,
                                                        const trainer::UpdateOptions& options,
                                                        const ComputeDevice& device) {
  REKINDLE_TRY(auto state, trainer::DeviceState::make(layout, options, device.place()));
  return std::make_unique<DeviceMemory>(std::move(state), device);
}

}  // namespace rekindle::model
