#include "capi/foreign_task.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "protocol/training.hpp"
#include "trainer/buffer_proof.hpp"
#include "trainer/update_options.hpp"

namespace rekindle::capi {

using trainer::EvaluationResult;
using trainer::MicroBatchResult;
using trainer::TensorPlace;

Result<std::unique_ptr<ForeignTask>> ForeignTask::make(const protocol::Job& job,
                                                       const checkpoint::StateSpec& tensors,
                                                       Machine machine) {
  const auto end_of_model =
      std::ranges::find(tensors, checkpoint::Role::kOptimizer, &checkpoint::TensorSpec::role);
  const trainer::StateLayout layout(checkpoint::StateSpec(tensors.begin(), end_of_model));
  REKINDLE_TRY(const trainer::UpdateOptions options, trainer::update_options(job, layout));
  REKINDLE_TRY(std::unique_ptr<trainer::HostState> state, trainer::HostState::make(layout, options));
  const checkpoint::StateSpec optimizer(end_of_model, tensors.end());
  return std::unique_ptr<ForeignTask>(new ForeignTask(job, std::move(state), optimizer, std::move(machine)));
}

ForeignTask::ForeignTask(const protocol::Job& job, std::unique_ptr<trainer::HostState> state,
                         const checkpoint::StateSpec& optimizer, Machine machine)
    : state_(std::move(state)),
      metrics_(job.script_metrics),
      machine_(std::move(machine)),
      received_(layout().parameters()),
      buffers_(layout().tensors().size() - layout().parameters()),
      proposed_(buffers_.size()) {
  if (job.optimizer == protocol::kScriptsOptimizer) copy_.emplace(*state_, optimizer);
  state_->keep_from_children();
}

void ForeignTask::begin(const rk_calls& calls) {
  calls_ = calls;
  if (copy_) copy_->take(*state_);
}

std::span<std::byte> ForeignTask::value_of(std::size_t tensor) {
  const std::size_t of_model = layout().tensors().size();
  return tensor < of_model ? state_->value_of(layout().tensors()[tensor])
                           : copy_->optimizer_tensor(tensor - of_model);
}

Status ForeignTask::result_of(int code) {
  if (code == RK_OK) return {};
  if (code == RK_ABORTED) {
    Error aborted{ExitCode::kGaveUp, "the micro-batch was aborted", ""};
    aborted.kind = ErrorKind::kAborted;
    return forward_error(std::move(aborted));
  }
  Error error =
      std::exchange(failure_, std::nullopt).value_or(Error{ExitCode::kGaveUp, "the script failed", ""});
  return forward_error(std::move(error));
}

Status ForeignTask::initialize() {
  for (const checkpoint::Tensor& tensor : state_->state()) std::ranges::fill(tensor.bytes, std::byte{0});
  REKINDLE_CHECK(result_of(calls_.initialize()));
  if (!copy_) return {};
  for (const checkpoint::Tensor& tensor : copy_->state()) std::ranges::fill(tensor.bytes, std::byte{0});
  copy_->take(*state_);
  return result_of(calls_.load_optimizer());
}

Status ForeignTask::download() {
  if (!copy_) return {};
  copy_->take(*state_);
  return result_of(calls_.save_optimizer());
}

Status ForeignTask::upload() {
  if (!copy_) return {};
  copy_->give(*state_);
  return result_of(calls_.load_optimizer());
}

std::vector<trainer::GradientTensor> ForeignTask::gradient_tensors() const {
  std::vector<trainer::GradientTensor> tensors;
  for (const TensorPlace& place : layout().tensors())
    tensors.push_back({place.spec.name, place.offset, place.floats});
  return tensors;
}

trainer::FloatRange ForeignTask::parameter_floats() const {
  return {layout().first_parameter_float(), layout().end_of_parameters()};
}

void ForeignTask::expect_steps(std::uint64_t step, std::vector<int> all, std::vector<int> first) {
  expected_ = result_of(calls_.expect_steps(step, all.data(), all.size(), first.data(), first.size()));
}

void ForeignTask::end_of_steps() { std::ignore = result_of(calls_.end_of_steps()); }

Result<MicroBatchResult> ForeignTask::train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                            const std::atomic<bool>& aborted) {
  REKINDLE_CHECK(expected_);
  if (gradient.size() != layout().floats())
    return fail(str("gradient memory of ", gradient.size(), " floats instead of ", layout().floats()));
  std::ranges::fill(received_, std::uint8_t{0});
  std::ranges::fill(buffers_, nullptr);
  static_assert(sizeof(aborted) == 1);
  rk_micro_batch batch{.step = step,
                       .micro_batch = micro_batch,
                       .gradient = gradient.data(),
                       .received = received_.data(),
                       .buffers = buffers_.data(),
                       .aborted = reinterpret_cast<const std::uint8_t*>(&aborted),
                       .loss = 0,
                       .waited_ms = 0};
  REKINDLE_CHECK(result_of(calls_.train(&batch)));
  std::ranges::fill(gradient.first(layout().first_parameter_float()), 0.0F);
  write_parameters(gradient);
  REKINDLE_CHECK(write_buffers(gradient));
  return MicroBatchResult{batch.loss, {}, batch.waited_ms};
}

// Marks the parameters that got a gradient, and clears all others and the padding.
void ForeignTask::write_parameters(std::span<float> gradient) {
  for (std::size_t i = 0; i < layout().parameters(); ++i) {
    const TensorPlace& place = layout().tensors()[i];
    gradient[i] = received_[i] != 0 ? 1.0F : 0.0F;
    const std::size_t begin = received_[i] != 0 ? place.end() : place.offset;
    std::ranges::fill(gradient.subspan(begin, layout().end_with_padding(i) - begin), 0.0F);
  }
}

Status ForeignTask::write_buffers(std::span<float> gradient) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t tensor = layout().parameters() + i;
    const TensorPlace& place = layout().tensors()[tensor];
    if (buffers_[i] == nullptr) return fail(str("the script gave no value of buffer ", place.spec.name));
    const std::span value(static_cast<const std::byte*>(buffers_[i]), place.spec.bytes());
    const std::span<std::byte> old = state_->value_of(place);
    const std::span<float> to =
        gradient.subspan(place.offset, layout().end_with_padding(tensor) - place.offset);
    gradient[tensor] = std::ranges::equal(value, old) ? 0.0F : 1.0F;
    std::ranges::fill(to, 0.0F);
    if (place.is_float()) {
      std::memcpy(to.data(), value.data(), value.size());
    } else {
      trainer::write_proof(value, to.first<trainer::kProofFloats>());
      proposed_[i].assign(value.begin(), value.end());
      state_->propose(tensor, proposed_[i]);
    }
  }
  return {};
}

Result<EvaluationResult> ForeignTask::evaluate(std::uint64_t first, std::uint64_t count) {
  std::vector<rk_sum> sums(metrics_.size(), rk_sum{});
  rk_evaluation evaluation{.first = first,
                           .count = count,
                           .averaged = state_->averaged() ? 1 : 0,
                           .loss = {},
                           .metrics = sums.data()};
  REKINDLE_CHECK(result_of(calls_.evaluate(&evaluation)));
  EvaluationResult result{{evaluation.loss.sum, evaluation.loss.count}, {}};
  for (const rk_sum& sum : sums) result.metrics.push_back({sum.sum, sum.count});
  return result;
}

Result<double> ForeignTask::rate_factor(std::uint64_t step) {
  double factor = 1;
  if (calls_.rate_factor == nullptr) return factor;
  REKINDLE_CHECK(result_of(calls_.rate_factor(step, &factor)));
  if (!std::isfinite(factor)) return fail(str("the schedule gave ", factor, " for step ", step));
  return factor;
}

void ForeignTask::update(std::size_t first, std::span<const float> sum, const optim::Step& step) {
  if (!copy_) return state_->update(first, sum, step);
  std::ranges::copy(sum, copy_->sum().begin() + static_cast<std::ptrdiff_t>(first));
  step_ = step;
}

Status ForeignTask::finish_update() {
  if (const auto step = std::exchange(step_, std::nullopt)) REKINDLE_CHECK(optimize(*step));
  return state_->finish_update();
}

// The script's optimizer updates the parameters, and then everything else is updated as always.
Status ForeignTask::optimize(const optim::Step& step) {
  const std::span<float> sum = copy_->sum();
  for (std::size_t i = 0; i < received_.size(); ++i) received_[i] = sum[i] > 0 ? 1 : 0;
  const std::size_t begin = layout().first_parameter_float();
  for (float& value : sum.subspan(begin, layout().end_of_parameters() - begin)) value *= step.scale;
  rk_step call{.step = step.number,
               .gradient = sum.data(),
               .received = received_.data(),
               .factor = step.learning_rate};
  REKINDLE_CHECK(result_of(calls_.optimize(&call)));
  std::ranges::fill(sum.first(received_.size()), 0.0F);  // no parameter is to be updated again
  state_->update(0, sum, step);
  return {};
}

}  // namespace rekindle::capi
