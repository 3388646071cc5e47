#include "capi/foreign_task.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "protocol/training.hpp"
#include "trainer/metric_totals.hpp"
#include "trainer/update_options.hpp"

namespace rekindle::capi {

using trainer::EvaluationResult;
using trainer::MicroBatchResult;
using trainer::TensorPlace;

namespace {

static_assert(RK_METRICS == trainer::kMostMetrics);
using Sums = std::array<rk_sum, RK_METRICS>;

std::vector<trainer::MetricSum> metric_sums(const Sums& sums) {
  std::vector<trainer::MetricSum> metrics;
  for (const rk_sum& sum : sums) metrics.push_back({sum.sum, sum.count});
  return metrics;
}

}  // namespace

Result<std::unique_ptr<ForeignTask>> ForeignTask::make(const protocol::Job& job,
                                                       const checkpoint::StateSpec& tensors, Machine machine,
                                                       const ComputeDevice& device) {
  const auto end_of_model =
      std::ranges::find(tensors, checkpoint::Role::kOptimizer, &checkpoint::TensorSpec::role);
  const trainer::StateLayout layout(checkpoint::StateSpec(tensors.begin(), end_of_model));
  REKINDLE_TRY(const trainer::UpdateOptions options, trainer::update_options(job, layout));
  REKINDLE_TRY(std::unique_ptr<StateMemory> memory, device.place()
                                                        ? make_device_memory(layout, options, device)
                                                        : make_host_memory(layout, options));
  const checkpoint::StateSpec optimizer(end_of_model, tensors.end());
  return std::unique_ptr<ForeignTask>(
      new ForeignTask(job, std::move(memory), optimizer, std::move(machine), device.place()));
}

ForeignTask::ForeignTask(const protocol::Job& job, std::unique_ptr<StateMemory> memory,
                         const checkpoint::StateSpec& optimizer, Machine machine, device::Place place)
    : place_(place),
      memory_(std::move(memory)),
      metrics_(job.task.script_metrics),
      machine_(std::move(machine)),
      received_(layout().parameters()),
      buffers_(layout().tensors().size() - layout().parameters()) {
  if (job.optimizer == protocol::kScriptsOptimizer)
    copy_.emplace(memory_->state(), static_cast<bool>(place_), optimizer);
}

Status ForeignTask::begin(const rk_calls& calls) {
  calls_ = calls;
  if (place_) place_.device->when_full([free_memory = calls.free_memory] { std::ignore = free_memory(); });
  REKINDLE_CHECK(memory_->download());
  if (copy_) copy_->take();
  return {};
}

void* ForeignTask::value_of(std::size_t tensor) {
  const std::size_t of_model = layout().tensors().size();
  if (tensor >= of_model) return copy_->optimizer_tensor(tensor - of_model).data();
  return &memory_->values()[layout().tensors()[tensor].offset];
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
  if (code == RK_NOT_NOW) error.kind = ErrorKind::kSystem;
  return forward_error(std::move(error));
}

Status ForeignTask::initialize() {
  const auto clear = [](const checkpoint::State& state) {
    for (const checkpoint::Tensor& tensor : state) std::ranges::fill(tensor.bytes, std::byte{0});
  };
  clear(memory_->state());
  REKINDLE_CHECK(memory_->upload());
  REKINDLE_CHECK(call(calls_.initialize));
  REKINDLE_CHECK(memory_->download());
  if (!copy_) return {};
  const checkpoint::State all = copy_->state();
  clear(checkpoint::State(all.begin() + static_cast<std::ptrdiff_t>(memory_->state().size()), all.end()));
  copy_->take();
  return call(calls_.load_optimizer);
}

Status ForeignTask::download() {
  REKINDLE_CHECK(memory_->download());
  if (!copy_) return {};
  copy_->take();
  return call(calls_.save_optimizer);
}

Status ForeignTask::upload() {
  if (copy_) copy_->give();
  REKINDLE_CHECK(memory_->upload());
  return copy_ ? call(calls_.load_optimizer) : Status();
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
  Sums sums{};
  static_assert(sizeof(aborted) == 1);
  rk_micro_batch batch{.step = step,
                       .micro_batch = micro_batch,
                       .gradient = gradient.data(),
                       .received = received_.data(),
                       .buffers = buffers_.data(),
                       .aborted = reinterpret_cast<const std::uint8_t*>(&aborted),
                       .loss = 0,
                       .metrics = sums.data(),
                       .waited_ms = 0};
  REKINDLE_CHECK(call(calls_.train, &batch));
  REKINDLE_CHECK(check_buffers());
  REKINDLE_CHECK(memory_->complete(gradient, {received_, buffers_}));
  return MicroBatchResult{batch.loss, metric_sums(sums), batch.waited_ms};
}

Status ForeignTask::check_buffers() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i] == nullptr)
      return fail(str("the script gave no value of buffer ",
                      layout().tensors()[layout().parameters() + i].spec.name));
  }
  return {};
}

Result<EvaluationResult> ForeignTask::evaluate(std::uint64_t first, std::uint64_t count,
                                               const std::atomic<bool>&) {
  Sums sums{};
  rk_evaluation evaluation{.first = first,
                           .count = count,
                           .averaged = memory_->averaged() ? 1 : 0,
                           .loss = {},
                           .metrics = sums.data()};
  REKINDLE_CHECK(call(calls_.evaluate, &evaluation));
  return EvaluationResult{{evaluation.loss.sum, evaluation.loss.count}, metric_sums(sums)};
}

Result<double> ForeignTask::rate_factor(std::uint64_t step) {
  double factor = 1;
  if (calls_.rate_factor == nullptr) return factor;
  REKINDLE_CHECK(result_of(calls_.rate_factor(step, &factor)));
  if (!std::isfinite(factor)) return fail(str("the schedule gave ", factor, " for step ", step));
  return factor;
}

void ForeignTask::update(std::size_t first, std::span<const float> sum, const optim::Step& step) {
  if (!copy_) return memory_->update(first, sum, step);
  memory_->keep_sum(first, sum);
  step_ = step;
}

Status ForeignTask::finish_update() {
  if (const auto step = std::exchange(step_, std::nullopt)) REKINDLE_CHECK(optimize(*step));
  return memory_->finish_update();
}

// The script's optimizer updates the parameters, and then everything else is updated as always.
Status ForeignTask::optimize(const optim::Step& step) {
  REKINDLE_TRY(const std::span<float> gradient, memory_->mean_gradient(step.scale, received_));
  rk_step of_script{.step = step.number,
                    .gradient = gradient.data(),
                    .received = received_.data(),
                    .factor = step.learning_rate};
  REKINDLE_CHECK(call(calls_.optimize, &of_script));
  memory_->update_others(step);
  return {};
}

}  // namespace rekindle::capi
