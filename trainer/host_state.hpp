// The state of a model in host memory: parameters, buffers, the optimizer's states and a moving average, and
// the update of all of them from a summed gradient. Without LibTorch: a Task in any language uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/pages.hpp"
#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "trainer/arenas.hpp"
#include "trainer/state_layout.hpp"
#include "trainer/update_plan.hpp"

namespace rekindle::trainer {

// The names of the tensors of a state: parameters, buffers, "momentum.NAME" for each state of the optimizer,
// "ema.NAME" for the average of parameters and float32 buffers, and "updates", the counters of UpdatePlan.
checkpoint::StateSpec spec_of_state(const StateLayout& layout, const UpdatePlan& plan, bool average);

// The error for a buffer that has no mean, and about which the micro-batches did not agree.
Error disagreement(const TensorPlace& place);

class HostState {
 public:
  // Errors: those of UpdatePlan::make(). All values are zero.
  static Result<std::unique_ptr<HostState>> make(const StateLayout& layout, const UpdateOptions& options);

  const StateLayout& layout() const { return layout_; }
  checkpoint::State state();
  Arenas arenas() const;
  std::vector<std::span<std::byte>> memory();  // the same, to be written to
  // By StateLayout. `average` is empty if there is none.
  std::span<float> values() { return arenas_[0].floats(); }
  std::span<float> average();
  // Whether there is an average, and an update has given it values.
  bool averaged();
  std::span<std::byte> value_of(const TensorPlace& place);

  // Processes that are forked from now on do not have this memory: they load samples, and each page that an
  // update changes would be copied for them.
  void keep_from_children();

  // The counters of updates (UpdatePlan::counters()); empty if the state has none.
  std::span<std::int32_t> counters();

  // As Task::update().
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step);
  // The new value of a buffer that is not float32, from a micro-batch of this step. The bytes stay valid
  // until finish_update().
  void propose(std::size_t tensor, std::span<const std::byte> value) { proposed_[tensor] = value; }
  // Error (ExitCode::kConfig): the micro-batches did not agree about a buffer that has no mean.
  Status finish_update();

 private:
  HostState(const StateLayout& layout, UpdatePlan plan, const UpdateOptions& options);
  void update_parameters(std::size_t first, std::span<const float> sum);
  void update_buffer(std::size_t tensor, std::size_t first, std::span<const float> sum);
  void update_average(std::size_t first, std::size_t count);

  const StateLayout layout_;
  UpdatePlan plan_;
  const double average_decay_;
  const std::size_t optimizer_states_;
  std::vector<Pages> arenas_;  // values, the optimizer's states, the average
  std::vector<std::span<const std::byte>> proposed_;
  Status failure_;
};

}  // namespace rekindle::trainer
