// Which update each parameter and buffer gets in a step, from the header of the summed gradient. The header
// is at the beginning of the gradient memory, so it arrives before everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "optim/groups.hpp"
#include "optim/optimizer.hpp"
#include "trainer/state_layout.hpp"

namespace rekindle::trainer {

struct UpdateOptions {
  optim::Options optimizer = {};
  std::vector<optim::Group> groups = {};  // one for each parameter
  double average = 0;                     // decay of the moving average; 0: none
  bool counts = false;                    // count the updates although the optimizer does not need it
  int micro_batches = 1;                  // in a step
};

// Neighbouring parameters that get the same update: elements [first, end), padding included.
struct UpdateRun {
  std::size_t first = 0, end = 0;
  const optim::Optimizer* optimizer = nullptr;
  optim::Group group;
  optim::Step step = {};

  // Those of `all` that hold for these parameters.
  optim::Options options(optim::Options all) const {
    if (!group.decays) all.weight_decay = 0;
    return all;
  }
};

class UpdatePlan {
 public:
  // Errors: those of optim::make_optimizer().
  static Result<UpdatePlan> make(const StateLayout& layout, const UpdateOptions& options);

  std::vector<std::string> optimizer_states() const { return optimizer_->states(); }
  // Whether a GPU can compute the update.
  bool has_formula() const { return optimizer_->as_formula() != nullptr; }
  // Whether the state has a counter of updates for the model and each tensor. See counters().
  bool counts() const { return counts_; }
  static std::size_t counters(const StateLayout& layout) { return 1 + layout.tensors().size(); }

  // Takes the part of the header in elements [first, first + sum.size()) of the summed gradient. When the
  // header is complete, makes the plan of the step and counts: element 0 of `counters` is the number of
  // updates of the model, element 1 + i that of tensor i. `counters` is empty if counts() is false.
  void take_header(std::size_t first, std::span<const float> sum, const optim::Step& step,
                   std::span<std::int32_t> counters);

  // Of the step whose header was complete last.
  const std::vector<UpdateRun>& runs() const { return runs_; }
  bool changed(std::size_t tensor) const { return header_[tensor] > 0; }
  bool is_first() const { return is_first_; }  // update of the model
  float mean() const { return mean_; }         // 1 / micro-batches
  int micro_batches() const { return micro_batches_; }

 private:
  UpdatePlan() = default;
  void make_runs(const optim::Step& step, std::span<std::int32_t> counters);

  std::vector<UpdateRun> parameters_;  // one for each parameter, as if it were updated alone
  std::unique_ptr<optim::Optimizer> optimizer_, without_decay_;
  std::vector<float> header_;  // of the current step
  std::vector<UpdateRun> runs_;
  int micro_batches_ = 1;
  float mean_ = 1;
  bool counts_ = false, is_first_ = false;
};

}  // namespace rekindle::trainer
