// What the step loop does with the whole state: update, hashes, evaluation, checkpoint. And its waits for
// samples.
#include "trainer/step_loop.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/log.hpp"
#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/training.hpp"

namespace rekindle::trainer {

using exchange::StepHeader;
using protocol::TrainerPhase;

// If hashing or checking follows, the update runs in 256 KiB pieces, so that each piece is still in the
// processor's cache. A step without `step` is voided: its hashes and checks are made of the state as it is.
void StepLoop::update(const exchange::SumPiece& piece, const optim::Step* step, bool hashes) {
  constexpr std::size_t kFloats = std::size_t{1} << 16;
  const bool checks = parts_.writer.checks();
  const std::size_t most = hashes || checks ? kFloats : piece.sum.size();
  for (std::size_t begin = 0; begin < piece.sum.size(); begin += most) {
    const std::span<const float> sum = piece.sum.subspan(begin, std::min(most, piece.sum.size() - begin));
    const std::size_t first = (piece.first + begin) * sizeof(float);
    if (checks) parts_.writer.before_change(first, sum.size_bytes());
    if (step != nullptr) parts_.task.update(piece.first + begin, sum, *step);
    if (hashes) hashes_.updated(first, sum.size_bytes());
  }
}

// All trainers of a run have the same kind of device, so all or none have a digest.
Result<Hash128> StepLoop::state_hash() {
  auto digest = parts_.task.digest();
  if (!digest) return task_error(std::move(digest.error()));
  if (*digest) return **digest;
  REKINDLE_CHECK(hash_state());
  return hashes_.digest(kept_.replica.step);
}

Status StepLoop::hash_state() {
  if (hashes_.complete()) return {};
  parts_.writer.release(
      kept_.replica.step);  // on a GPU, download() overwrites the memory that the writer reads
  REKINDLE_CHECK(of_task(parts_.task.download()));
  hashes_.all();
  return {};
}

void StepLoop::report_skipped() {
  for (const std::string& why : parts_.task.take_skipped()) {
    log_warning(str(why, "; the next readable sample takes its place"));
    parts_.link.send(protocol::SampleSkipped{why});
  }
}

Result<MicroBatchResult> StepLoop::train(int leaf, std::span<float> gradient) {
  for (double waited_ms = 0;;) {
    const auto began = parts_.clock.now();
    auto result = parts_.task.train(kept_.replica.step, leaf, gradient, parts_.link.aborted());
    parts_.link.progress();
    report_skipped();
    if (result) {
      result->waited_ms += waited_ms;
      if (kept_.samples.succeeded()) parts_.link.set_phase(TrainerPhase::kComputing, kept_.replica.step);
      return result;
    }
    if (!comes_later(result.error())) return result;
    REKINDLE_CHECK(kept_.samples.try_again(result.error(), kept_.replica.step, parts_.link, parts_.clock));
    waited_ms += parts_.clock.ms_since(began);
    if (result.error().kind == ErrorKind::kSystem) expect_micro_batches_from(leaf);
  }
}

Result<EvaluationResult> StepLoop::evaluate(std::uint64_t first, std::uint64_t count) {
  for (;;) {
    auto result = parts_.task.evaluate(first, count, parts_.link.aborted());
    report_skipped();
    if (result && kept_.samples.succeeded())
      parts_.link.set_phase(TrainerPhase::kEvaluating, kept_.replica.step);
    if (result || !comes_later(result.error())) return result;
    REKINDLE_CHECK(kept_.samples.try_again(result.error(), kept_.replica.step, parts_.link, parts_.clock));
  }
}

// Evaluates in chunks of one global batch: leaf l of chunk c has the test images [(c*V + l)*b, + b).
Status StepLoop::evaluate(bool& stopped) {
  const std::uint64_t leaf_batch = parts_.job.batch_size / parts_.job.micro_batches,
                      tests = parts_.job.test_samples;
  parts_.writer.expect_no_update();
  MetricTotals totals;
  for (std::uint64_t chunk = 0; chunk * parts_.job.batch_size < tests; ++chunk) {
    parts_.link.set_phase(TrainerPhase::kEvaluating, kept_.replica.step);
    StepHeader header;
    header.flags = own_flags() & protocol::kStopFlag;
    for (int leaf = leaves_.first; leaf < leaves_.first + leaves_.count; ++leaf) {
      const std::uint64_t first =
          chunk * parts_.job.batch_size + static_cast<std::uint64_t>(leaf) * leaf_batch;
      // An abort also aborts the exchange, which returns the error below.
      if (first >= tests || parts_.link.aborted()) break;
      const auto result = evaluate(first, std::min(leaf_batch, tests - first));
      if (!result) return computation_error(result.error());
      add_loss(header, result->loss.sum, result->loss.count);
      add_metrics(header, result->metrics);
    }
    REKINDLE_TRY(const auto headers, exchange_.gather(header));
    const exchange::StepSums sums = sum_of(headers);
    totals.add(sums);
    if ((sums.flags & protocol::kStopFlag) != 0) {
      stopped = true;  // the evaluation is repeated at the next start
      return {};
    }
  }
  if (start_.rank == 0) {
    const double loss = totals.mean_loss();
    parts_.link.send(protocol::Evaluated{
        start_.generation, kept_.replica.step, epoch_of(parts_.job, kept_.replica.step - 1), totals.count(),
        std::isnan(loss) ? std::nullopt : std::optional(loss), totals.means(parts_.task.metrics())});
  }
  last_step_ = parts_.clock.now();
  return {};
}

Status StepLoop::write_checkpoint(bool pauses) {
  const auto started = parts_.clock.now();
  if (pauses || parts_.writer.busy()) {
    parts_.link.set_phase(TrainerPhase::kWriting, kept_.replica.step);
    parts_.writer.finish();
  }
  REKINDLE_CHECK(hash_state());
  if (pauses)
    log_info(str("the state of step ", kept_.replica.step, " is written before this trainer pauses"));
  parts_.link.checkpoint_begins();
  parts_.writer.begin({start_.generation, kept_.replica.step, ranks_, start_.rank}, parts_.task.state(),
                      hashes_.all(), parts_.task.arenas(), pauses);
  saved_ = true;
  if (pauses) parts_.writer.finish();
  kept_.last_checkpoint = parts_.clock.now();
  checkpoint_ms_ += parts_.clock.ms_since(started);
  return {};
}

// The next loss shows an update that spoils the state, unless that state is written, or the last one.
Result<bool> StepLoop::may_be_written(const exchange::Reduced& reduced, std::uint32_t flags) {
  const auto next = after_step(parts_.job, kept_.replica.step + 1, flags);
  if (parts_.job.clip_norm > 0 || !(next.write || next.evaluate || next.pause)) return true;
  REKINDLE_TRY(const double norm, gradients_.norm(reduced.pieces, parts_.task.parameter_floats()));
  if (std::isfinite(norm)) return true;
  if (!exchange_.sums_unchanged())
    return fail("peers continued while this trainer was still reading their sums");
  return false;
}

}  // namespace rekindle::trainer
