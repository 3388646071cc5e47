#include "trainer/step_loop.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.hpp"
#include "base/planted.hpp"
#include "base/text.hpp"
#include "optim/clip.hpp"
#include "protocol/training.hpp"

namespace rekindle::trainer {

using exchange::StepHeader;
using protocol::Paused;
using protocol::PauseReason;
using protocol::TrainerPhase;

namespace {

constexpr std::size_t kRememberedSteps = 10000;

std::vector<int> computed_micro_batches(const std::vector<exchange::LeafOp>& ops) {
  std::vector<int> leaves;
  for (const exchange::LeafOp& op : ops)
    if (op.kind == exchange::LeafOp::Kind::kCompute) leaves.push_back(op.leaf);
  return leaves;
}

}  // namespace

StepLoop::StepLoop(const Parts& parts, Kept& kept, const protocol::Start& start, exchange::Exchange& exchange)
    : parts_(parts),
      kept_(kept),
      start_(start),
      exchange_(exchange),
      ranks_(static_cast<int>(start.members.size())),
      leaves_(exchange::leaves_of(static_cast<int>(parts_.job.micro_batches), ranks_, start.rank)),
      gradients_(parts_.task.place()),
      hashes_(parts_.task.state(), parts_.task.arenas()),
      saved_(start.saved),
      last_step_(parts_.clock.now()) {}

void StepLoop::note(const protocol::StepDone& done) {
  kept_.history.push_back(done);
  if (kept_.history.size() > kRememberedSteps) kept_.history.pop_front();
  if (start_.rank == 0) parts_.link.send(done);
}

Paused StepLoop::run() {
  if (const auto missed = protocol::missed_steps(start_, kept_.history)) parts_.link.send(*missed);
  kept_.samples.begin_generation();
  protocol::Next next = after_start(parts_.job, start_);
  if (!next.pause) begin_micro_batches();
  for (;;) {
    if (next.postponed) parts_.link.checkpoint_postponed();
    if (next.write && !saved_) {
      if (auto status = write_checkpoint(next.pause); !status) return pause(status.error());
    }
    bool stopped = false;
    if (next.evaluate) {
      if (auto status = evaluate(stopped); !status) return pause(status.error());
    }
    if (stopped) {
      // The stop may come long after the last checkpoint.
      if (!saved_) {
        if (auto status = write_checkpoint(true); !status) return pause(status.error());
      }
      return pause(PauseReason::kAgreed);
    }
    if (next.pause) return pause(next.reason);
    auto agreed = step();
    if (!agreed) return pause(agreed.error());
    if (!agreed->states.equal) {
      Paused paused = pause(PauseReason::kStatesDiffer, "the states of the replicas are not equal");
      paused.differing = agreed->states.minority;
      return paused;
    }
    if ((agreed->flags & protocol::kNonFiniteFlag) != 0)
      return pause(PauseReason::kNonFinite,
                   str("the loss of step ", kept_.replica.step, " is not finite, or beyond 1e15"));
    if (!agreed->gradient_finite)
      return pause(PauseReason::kNonFinite,
                   str("the gradient of step ", kept_.replica.step, " is not finite, though the loss is"));
    next = after_step(parts_.job, kept_.replica.step, agreed->flags);
  }
}

std::uint32_t StepLoop::own_flags() {
  std::uint32_t flags = parts_.link.flags();
  if (parts_.writer.busy()) flags |= protocol::kWritingFlag;
  const auto interval = std::chrono::milliseconds(parts_.job.checkpoint_interval_ms);
  // Each trainer measures the interval itself, because generations may be short and ranks change.
  if (interval.count() > 0 && parts_.clock.now() - kept_.last_checkpoint >= interval)
    flags |= protocol::kCheckpointFlag;
  return flags;
}

void StepLoop::expect_micro_batches(std::vector<int> missing) {
  parts_.task.expect_steps(kept_.replica.step, computed_micro_batches(exchange::leaf_ops(leaves_)),
                           std::move(missing));
}

// What was read ahead is read again.
void StepLoop::expect_micro_batches_from(int leaf) {
  std::vector<int> missing = computed_micro_batches(ops_);
  missing.erase(missing.begin(), std::ranges::find(missing, leaf));
  expect_micro_batches(std::move(missing));
}

void StepLoop::begin_micro_batches() {
  ops_ = exchange::leaf_ops(leaves_, kept_.sums.held(kept_.replica.step));
  const std::vector<int> missing = computed_micro_batches(ops_);
  const std::size_t all = computed_micro_batches(exchange::leaf_ops(leaves_)).size(),
                    kept = all - missing.size();
  expect_micro_batches(missing);
  log_info(str("generation ", to_text(start_.generation), ": micro-batches of step ", kept_.replica.step,
               " begin", kept == 0 ? std::string() : str(", ", kept, " of ", all, " are already computed")));
}

Status StepLoop::compute_micro_batch(int leaf, int slot, Times& times) {
  const auto started = parts_.clock.now();
  REKINDLE_TRY(const std::span<float> to, parts_.hub.slot(slot));
  kept_.sums.invalidate(slot);
  const auto result = train(leaf, to);
  if (!result) return computation_error(result.error());
  times.data_ms += result->waited_ms;
  times.compute_ms += parts_.clock.ms_since(started) - result->waited_ms;
  exchange::StepSums numbers;
  if (!(std::abs(result->loss) <= kSumLimit)) numbers.flags = protocol::kNonFiniteFlag;  // also NaN
  add_loss(numbers, result->loss, 1);
  add_metrics(numbers, result->metrics);
  kept_.sums.computed(slot, leaf, numbers);
  return {};
}

Status StepLoop::compute_micro_batches(Times& times) {
  using Kind = exchange::LeafOp::Kind;
  for (const exchange::LeafOp& op : ops_) {
    if (op.kind == Kind::kCompute) {
      REKINDLE_CHECK(compute_micro_batch(op.leaf, op.to, times));
      continue;
    }
    const auto started = parts_.clock.now();
    REKINDLE_TRY(const std::span<float> to, parts_.hub.slot(op.to));
    REKINDLE_TRY(const std::span<float> from, parts_.hub.slot(op.from));
    if (op.kind == Kind::kAdd) {
      gradients_.add(to, from);
      kept_.sums.added(op.to, op.from);
    } else {
      gradients_.copy(to, from);
      kept_.sums.copied(op.to, op.from);
    }
    times.compute_ms += parts_.clock.ms_since(started);
  }
  return {};
}

exchange::StepSums StepLoop::sum_of(const std::vector<StepHeader>& headers) {
  exchange::StepSums sums;
  for (const StepHeader& header : headers) sums += header;
  return sums;
}

StepLoop::Totals StepLoop::total(const std::vector<StepHeader>& headers) {
  Totals totals;
  const exchange::StepSums sums = sum_of(headers);
  std::vector<Hash128> states;
  states.reserve(headers.size());
  for (const StepHeader& header : headers) states.push_back(header.state_hash);
  totals.flags = sums.flags;
  totals.values.add(sums);
  totals.states = protocol::compare_hashes(states);
  return totals;
}

Result<StepLoop::Totals> StepLoop::step() {
  Times times;
  StepHeader header;
  parts_.link.set_phase(TrainerPhase::kComputing, kept_.replica.step);
  if (hash_due(parts_.job, kept_.replica.step, ranks_)) {
    REKINDLE_TRY(header.state_hash, state_hash());
    parts_.link.set_phase(TrainerPhase::kComputing, kept_.replica.step);
  }
  REKINDLE_CHECK(compute_micro_batches(times));
  kept_.sums.add_to(header, static_cast<int>(exchange::subtrees_of(leaves_).size()));
  header.flags |= own_flags();
  header.compute_us = static_cast<std::uint64_t>(times.compute_ms * 1000);

  parts_.link.set_phase(TrainerPhase::kExchanging, kept_.replica.step);
  const auto started = parts_.clock.now();
  const auto reduced = exchange_.reduce(header);
  if (exchange_.slot_0_overwritten()) kept_.sums.invalidate(0);
  if (!reduced) return forward_error(reduced.error());
  times.exchange_ms = parts_.clock.ms_since(started);
  Totals totals = total(reduced->headers);
  if (planted(Bug::kPauseFlagNotOred)) totals.flags = header.flags;
  if ((totals.flags & protocol::kNonFiniteFlag) != 0 || !totals.states.equal) return totals;
  REKINDLE_TRY(totals.gradient_finite, may_be_written(*reduced, totals.flags));
  if (!totals.gradient_finite) return totals;

  REKINDLE_CHECK(apply(*reduced, totals, times));
  return totals;
}

// All trainers compute the same norm from the same sums. A norm that is not finite voids the step: the model,
// the optimizer's states and their counters stay as they are, and the run goes on with the next step.
Result<StepLoop::Clipping> StepLoop::clip(const exchange::Reduced& reduced) {
  Clipping clipping{.scale = 1.0F / static_cast<float>(parts_.job.micro_batches)};
  if (parts_.job.clip_norm <= 0) return clipping;
  REKINDLE_TRY(const double of_sum, gradients_.norm(reduced.pieces, parts_.task.parameter_floats()));
  const double norm = clipping.scale * of_sum;
  clipping.voided = !std::isfinite(norm);
  if (clipping.voided) return clipping;
  clipping.norm = norm;
  clipping.scale *= static_cast<float>(optim::clip_factor(norm, parts_.job.clip_norm));
  return clipping;
}

// All sums are readable. From the first piece to the last one, the update cannot be aborted.
Status StepLoop::apply(const exchange::Reduced& reduced, const Totals& totals, Times times) {
  const auto factor = parts_.task.rate_factor(kept_.replica.step);
  if (!factor) return task_error(factor.error());
  auto started = parts_.clock.now();
  // Without arenas the writer reads a copy, which the update does not change.
  if (hashes_.during_update() && !planted(Bug::kUpdateBeforeSnapshot))
    parts_.writer.release_to_update(kept_.replica.step);
  checkpoint_ms_ += parts_.clock.ms_since(started);
  parts_.link.set_phase(TrainerPhase::kApplying, kept_.replica.step);
  started = parts_.clock.now();
  REKINDLE_TRY(const Clipping clipping, clip(reduced));
  const optim::Step step{.number = kept_.replica.step,
                         .scale = clipping.scale,
                         .learning_rate = learning_rate(parts_.job, kept_.replica.step) * *factor};
  const std::uint64_t epoch = epoch_of(parts_.job, kept_.replica.step), made = kept_.replica.step + 1;
  const bool hashes = hashes_.during_update() && (hash_due(parts_.job, made, ranks_) ||
                                                  after_step(parts_.job, made, totals.flags).write);
  const auto report = [&] {
    const double step_ms = parts_.clock.ms_since(last_step_);
    note({start_.generation, made, epoch, totals.values.mean_loss(),
          totals.values.means(parts_.task.metrics()), step.learning_rate,
          1000.0 * static_cast<double>(parts_.job.batch_size) / step_ms, times.data_ms, times.compute_ms,
          times.exchange_ms, times.update_ms, checkpoint_ms_, step_ms, ranks_, clipping.norm,
          clipping.voided});
  };
  if (planted(Bug::kReportBeforeUpdate)) report();
  kept_.replica.valid = false;
  kept_.sums.forget();
  hashes_.forget();
  for (const exchange::SumPiece& piece : reduced.pieces)
    update(piece, clipping.voided ? nullptr : &step, hashes);
  if (const Status updated = parts_.task.finish_update(); !updated) return task_error(updated.error());
  if (!exchange_.sums_unchanged() && !planted(Bug::kSumsNotCheckedAfterUpdate))
    return fail("peers continued while this trainer was still reading their sums: its state is invalid");
  kept_.replica = {true, made};
  saved_ = false;
  ops_ = exchange::leaf_ops(leaves_, kept_.sums.held(kept_.replica.step));
  times.update_ms = parts_.clock.ms_since(started);
  if (!planted(Bug::kReportBeforeUpdate)) report();
  last_step_ = parts_.clock.now();
  checkpoint_ms_ = 0;
  if (planted(Bug::kSegmentReusedBeforeRead)) return {};
  return exchange_.release();
}

Paused StepLoop::pause(PauseReason reason, const std::string& detail) {
  parts_.task.end_of_steps();
  parts_.writer.expect_no_update();
  parts_.link.set_phase(TrainerPhase::kIdle, kept_.replica.step);
  return Paused{start_.generation,
                parts_.link.trainer(),
                kept_.replica.valid,
                kept_.replica.step,
                reason,
                -1,
                {},
                detail};
}

Paused StepLoop::pause(const Error& error) {
  if (error.kind == ErrorKind::kAborted) return pause(PauseReason::kAborted, error.line());
  if (error.kind == ErrorKind::kTask) kept_.failure = forward_error(error);
  if (samples_unusable(error)) return pause(PauseReason::kSamplesUnusable, error.line());
  if (error.kind == ErrorKind::kUnreadable) return pause(PauseReason::kSamplesUnreadable, error.line());
  const bool altered = error.kind == ErrorKind::kAlteredData;
  Paused paused = pause(altered ? PauseReason::kDataAltered : PauseReason::kExchangeFailed, error.line());
  paused.peer = error.rank;
  return paused;
}

}  // namespace rekindle::trainer
