// A task whose micro-batches are computed by functions of another language (capi/rekindle.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capi/compute_device.hpp"
#include "capi/optimizer_copy.hpp"
#include "capi/rekindle.h"
#include "capi/state_memory.hpp"
#include "protocol/job.hpp"
#include "trainer/task.hpp"

namespace rekindle::capi {

struct Machine {
  std::string fingerprint, description;
};

class ForeignTask final : public trainer::Task {
 public:
  // `tensors`: of the model, then of its own optimizer. `device` lives longer. Errors (ExitCode::kConfig):
  // those of trainer::HostState::make() or DeviceState::make(), and of optim::make_groups().
  static Result<std::unique_ptr<ForeignTask>> make(const protocol::Job& job,
                                                   const checkpoint::StateSpec& tensors, Machine machine,
                                                   const ComputeDevice& device);

  // Before any other call. The initial values are in memory() by then.
  Status begin(const rk_calls& calls);
  void add_metric(std::string name) { metrics_.push_back(std::move(name)); }
  // Why the call that is being made fails.
  void set_failure(Error error) { failure_ = std::move(error); }
  StateMemory& memory() { return *memory_; }
  // Where the other language finds a tensor: on the device, or of its own optimizer, in host memory.
  void* value_of(std::size_t tensor);

  device::Place place() const override { return place_; }
  Status initialize() override;
  checkpoint::State state() override { return copy_ ? copy_->state() : memory_->state(); }
  Status download() override;
  Status upload() override;
  Result<std::optional<Hash128>> digest() override {
    if (copy_) return std::nullopt;  // the other language has the optimizer's tensors
    return memory_->digest();
  }
  trainer::Arenas arenas() override { return copy_ ? trainer::Arenas() : memory_->arenas(); }

  std::vector<std::string> metrics() const override { return metrics_; }
  std::size_t gradient_floats() const override { return layout().floats(); }
  std::vector<trainer::GradientTensor> gradient_tensors() const override;
  trainer::FloatRange parameter_floats() const override;

  void expect_steps(std::uint64_t step, std::vector<int> all, std::vector<int> first) override;
  void end_of_steps() override;
  Result<trainer::MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                          const std::atomic<bool>& aborted) override;
  Result<trainer::EvaluationResult> evaluate(std::uint64_t first, std::uint64_t count,
                                             const std::atomic<bool>& aborted) override;

  Result<double> rate_factor(std::uint64_t step) override;
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override;
  Status finish_update() override;

  std::string fingerprint() const override { return machine_.fingerprint; }
  std::string describe_machine() const override { return machine_.description; }

 private:
  ForeignTask(const protocol::Job& job, std::unique_ptr<StateMemory> memory,
              const checkpoint::StateSpec& optimizer, Machine machine, device::Place place);
  const trainer::StateLayout& layout() const { return memory_->layout(); }
  // The result of a call that returned `code`.
  Status result_of(int code);
  // The result of a call that uses the memory.
  template <class Call, class... Arguments>
  Status call(Call* function, Arguments... arguments) {
    REKINDLE_CHECK(memory_->settle());
    return result_of(function(arguments...));
  }
  Status check_buffers() const;
  Status optimize(const optim::Step& step);

  const device::Place place_;
  const std::unique_ptr<StateMemory> memory_;
  std::optional<OptimizerCopy> copy_;  // if the optimizer is the script's
  std::optional<optim::Step> step_;    // of the update that has begun, then
  std::vector<std::string> metrics_;
  const Machine machine_;
  rk_calls calls_{};
  std::optional<Error> failure_;
  Status expected_;  // of the last expect_steps(), which cannot fail itself
  std::vector<std::uint8_t> received_;
  std::vector<const void*> buffers_;
};

}  // namespace rekindle::capi
