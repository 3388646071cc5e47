#include <ATen/ATen.h>

#include <map>
#include <utility>

#include "model/state_memory.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::model {
namespace {

at::Tensor tensor_of(std::span<float> floats) {
  return floats.empty() ? at::Tensor()
                        : at::from_blob(floats.data(), {static_cast<std::int64_t>(floats.size())});
}

class HostMemory final : public StateMemory {
 public:
  explicit HostMemory(std::unique_ptr<trainer::HostState> state)
      : state_(std::move(state)),
        values_(tensor_of(state_->values())),
        average_(tensor_of(state_->average())) {}

  at::Tensor values() override { return values_; }
  at::Tensor average() override { return average_; }
  checkpoint::State state() override { return state_->state(); }
  trainer::Arenas arenas() override { return state_->arenas(); }
  bool averaged() override { return state_->averaged(); }
  Status download() override { return {}; }
  Status upload() override { return {}; }
  void propose(std::size_t tensor, const at::Tensor& value) override {
    proposed_[tensor] = value;
    state_->propose(tensor, {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()});
  }
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    state_->update(first, sum, step);
  }
  Status finish_update() override {
    proposed_.clear();
    return state_->finish_update();
  }

 private:
  std::unique_ptr<trainer::HostState> state_;
  at::Tensor values_, average_;
  std::map<std::size_t, at::Tensor> proposed_;  // keeps the bytes alive: only of the last micro-batch
};

}  // namespace

Result<std::unique_ptr<StateMemory>> make_host_memory(const trainer::StateLayout& layout,
                                                      const trainer::UpdateOptions& options) {
  REKINDLE_TRY(auto state, trainer::HostState::make(layout, options));
  return std::make_unique<HostMemory>(std::move(state));
}

}  // namespace rekindle::model
