#include "trainer/step_loop.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "model/device.hpp"
#include "trainer/replica_state.hpp"

namespace rekindle::trainer {

using exchange::StepHeader;
using protocol::Parked;
using protocol::ParkReason;
using protocol::TrainerPhase;

namespace {

// Losses travel as fixed point, so that their sum over leaves does not depend on who added what first.
constexpr double kLossUnit = 4294967296.0;  // 2^32
constexpr double kLossLimit = 1e6;          // a step's sum stays far inside an int64

constexpr std::size_t kRememberedSteps = 10000;

std::int64_t to_fixed(double loss) {
  return std::llround(std::clamp(loss, -kLossLimit, kLossLimit) * kLossUnit);
}

std::vector<int> computed_leaves(const std::vector<exchange::LeafOp>& ops) {
  std::vector<int> leaves;
  for (const exchange::LeafOp& op : ops)
    if (op.kind == exchange::LeafOp::Kind::kCompute) leaves.push_back(op.leaf);
  return leaves;
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

StepLoop::StepLoop(const Parts& parts, const protocol::Start& start, exchange::Exchange& exchange)
    : parts_(parts),
      job_(parts_.job),
      start_(start),
      exchange_(exchange),
      held_(parts_.held),
      ranks_(static_cast<int>(start.members.size())),
      rank_(start.rank),
      leaves_(exchange::leaves_of(static_cast<int>(job_.micro_batches), ranks_, rank_)),
      hashes_(parts_.replica.state(), parts_.replica.arenas()),
      saved_(start.saved),
      last_step_(Clock::now()) {}

void StepLoop::note(const protocol::StepDone& done) {
  parts_.history.push_back(done);
  if (parts_.history.size() > kRememberedSteps) parts_.history.pop_front();
  if (rank_ == 0) parts_.link.send(done);
}

Parked StepLoop::run() {
  if (const auto missed = protocol::missed_steps(start_, parts_.history)) parts_.link.send(*missed);
  protocol::Next next = after_start(job_, start_);
  if (!next.park) begin_leaves();
  for (;;) {
    if (next.postponed) parts_.link.checkpoint_postponed();
    if (next.write && !saved_) {
      if (auto status = write_checkpoint(next.park); !status) return park(status.error());
    }
    bool stopped = false;
    if (next.evaluate) {
      if (auto status = evaluate(stopped); !status) return park(status.error());
    }
    if (stopped) {
      // It may come long after the last checkpoint.
      if (!saved_) {
        if (auto status = write_checkpoint(true); !status) return park(status.error());
      }
      return park(ParkReason::kCut);
    }
    if (next.park) return park(next.reason);
    auto agreed = step();
    if (!agreed) return park(agreed.error());
    if (!agreed->states.alike) {
      Parked parked = park(ParkReason::kStatesDiffer, "the replicas' states are not alike");
      parked.differing = agreed->states.minority;
      return parked;
    }
    if ((agreed->flags & protocol::kNonFiniteFlag) != 0)
      return park(ParkReason::kNonFinite, str("the loss of step ", held_.step, " is not finite"));
    next = after_step(job_, held_.step, agreed->flags);
  }
}

std::uint32_t StepLoop::own_flags() {
  std::uint32_t flags = parts_.link.flags();
  if (parts_.writer.busy()) flags |= protocol::kWritingFlag;
  const auto interval = std::chrono::milliseconds(job_.checkpoint_interval_ms);
  // Whoever has been here for so long says so: generations may be short, and ranks change.
  if (interval.count() > 0 && Clock::now() - parts_.last_checkpoint >= interval)
    flags |= protocol::kCheckpointFlag;
  return flags;
}

void StepLoop::begin_leaves() {
  ops_ = exchange::leaf_ops(leaves_, parts_.sums.held(held_.step));
  const std::vector<int> missing = computed_leaves(ops_), all = computed_leaves(exchange::leaf_ops(leaves_));
  parts_.loader.start(held_.step, all, missing);
  const std::size_t kept = all.size() - missing.size();
  log_info(str("generation ", to_text(start_.generation), ": micro-batches of step ", held_.step, " begin",
               kept == 0 ? std::string() : str(", ", kept, " of ", all.size(), " are there already")));
}

Status StepLoop::compute_leaf(int leaf, int slot, Times& times) {
  auto started = Clock::now();
  REKINDLE_TRY(const std::span<float> to, parts_.hub.slot(slot));
  if (job_.device == "cuda") REKINDLE_CHECK(model::pin_host_memory(to));
  data::LeafBatch batch = parts_.loader.next();
  // Another leaf's samples would be a wrong state that nobody notices.
  if (batch.leaf != leaf || batch.step != held_.step) throw std::logic_error("the loader is out of step");
  times.data_ms += ms_since(started);
  started = Clock::now();
  const std::uint64_t key =
      stream_key(job_.seed, Draws::kDropout, {held_.step, static_cast<std::uint64_t>(leaf)});
  parts_.sums.spoil(slot);
  auto result = parts_.replica.train_leaf(batch.images, batch.labels, key, to, parts_.link.aborted());
  parts_.loader.recycle(std::move(batch));
  parts_.link.progress();
  if (!result) return forward_error(result.error());
  times.compute_ms += ms_since(started);
  PartialSums::Numbers numbers;
  if (!std::isfinite(result->loss)) {
    numbers.flags = protocol::kNonFiniteFlag;
  } else {
    numbers.loss = to_fixed(result->loss);
  }
  numbers.correct = static_cast<std::uint64_t>(result->correct);
  numbers.count = static_cast<std::uint64_t>(result->count);
  parts_.sums.computed(slot, leaf, numbers);
  return {};
}

Status StepLoop::compute_leaves(Times& times) {
  using Kind = exchange::LeafOp::Kind;
  for (const exchange::LeafOp& op : ops_) {
    if (op.kind == Kind::kCompute) {
      REKINDLE_CHECK(compute_leaf(op.leaf, op.to, times));
      continue;
    }
    const auto started = Clock::now();
    REKINDLE_TRY(const std::span<float> to, parts_.hub.slot(op.to));
    REKINDLE_TRY(const std::span<float> from, parts_.hub.slot(op.from));
    if (op.kind == Kind::kAdd) {
      exchange::add_into(to.data(), from.data(), to.size());
      parts_.sums.added(op.to, op.from);
    } else {
      std::ranges::copy(from, to.begin());
      parts_.sums.copied(op.to, op.from);
    }
    times.compute_ms += ms_since(started);
  }
  return {};
}

StepLoop::Totals StepLoop::total(const std::vector<StepHeader>& headers) {
  Totals totals;
  std::int64_t loss = 0;
  std::vector<Hash128> states;
  for (const StepHeader& header : headers) {
    states.push_back(header.state_hash);
    totals.flags |= header.flags;
    loss += header.loss;
    totals.correct += header.correct;
    totals.count += header.count;
  }
  totals.loss = static_cast<double>(loss) / kLossUnit;
  totals.states = protocol::compare_hashes(states);
  return totals;
}

Result<StepLoop::Totals> StepLoop::step() {
  Times times;
  StepHeader header;
  parts_.link.set_phase(TrainerPhase::kComputing, held_.step);
  if (hash_due(job_, held_.step)) {
    REKINDLE_CHECK(hash_state());
    parts_.link.set_phase(TrainerPhase::kComputing, held_.step);
    header.state_hash = hashes_.digest(held_.step);
  }
  REKINDLE_CHECK(compute_leaves(times));
  parts_.sums.add_to(header, static_cast<int>(exchange::subtrees_of(leaves_).size()));
  header.flags |= own_flags();
  header.compute_us = static_cast<std::uint64_t>(times.compute_ms * 1000);

  parts_.link.set_phase(TrainerPhase::kExchanging, held_.step);
  auto started = Clock::now();
  const auto reduced = exchange_.reduce(header);
  if (exchange_.slot_0_spoilt()) parts_.sums.spoil(0);
  if (!reduced) return forward_error(reduced.error());
  times.exchange_ms = ms_since(started);
  Totals totals = total(reduced->headers);
  totals.loss /= static_cast<double>(job_.micro_batches);
  if ((totals.flags & protocol::kNonFiniteFlag) != 0 || !totals.states.alike) return totals;

  started = Clock::now();
  if (hashes_.on_the_way()) parts_.writer.release_to_update(held_.step);  // else it reads other memory
  checkpoint_ms_ += ms_since(started);
  // From here on aborts are ignored until the whole update is in.
  parts_.link.set_phase(TrainerPhase::kApplying, held_.step);
  started = Clock::now();
  const double lr = learning_rate(job_, held_.step);
  const float scale = 1.0F / static_cast<float>(job_.micro_batches);
  const std::uint64_t made = held_.step + 1;
  const bool hashes =
      hashes_.on_the_way() && (hash_due(job_, made) || after_step(job_, made, totals.flags).write);
  held_.whole = false;
  parts_.sums.forget();
  hashes_.forget();
  for (const exchange::SumPiece& piece : reduced->pieces) update(piece, scale, lr, hashes);
  REKINDLE_CHECK(parts_.replica.finish_update());
  const std::uint64_t epoch = epoch_of(job_, held_.step);
  held_ = {true, made};
  saved_ = false;
  ops_ = exchange::leaf_ops(leaves_, parts_.sums.held(held_.step));
  times.update_ms = ms_since(started);

  const double step_ms = ms_since(last_step_);
  note({start_.generation, held_.step, epoch, totals.loss,
        static_cast<double>(totals.correct) / static_cast<double>(std::max<std::uint64_t>(totals.count, 1)),
        lr, 1000.0 * static_cast<double>(job_.batch_size) / step_ms, times.data_ms, times.compute_ms,
        times.exchange_ms, times.update_ms, checkpoint_ms_, step_ms, ranks_});
  last_step_ = Clock::now();
  checkpoint_ms_ = 0;
  REKINDLE_CHECK(exchange_.release());
  return totals;
}

// What is to be hashed goes in bits that are in the processor's cache when they are.
void StepLoop::update(const exchange::SumPiece& piece, float scale, double lr, bool hashes) {
  constexpr std::size_t kFloats = std::size_t{1} << 16;
  const bool checks = parts_.writer.checks();
  const std::size_t most = hashes || checks ? kFloats : piece.sum.size();
  for (std::size_t begin = 0; begin < piece.sum.size(); begin += most) {
    const std::span<const float> sum = piece.sum.subspan(begin, std::min(most, piece.sum.size() - begin));
    const std::size_t first = (piece.first + begin) * sizeof(float);
    if (checks) parts_.writer.before_change(first, sum.size_bytes());
    parts_.replica.update(piece.first + begin, sum, scale, lr);
    if (hashes) hashes_.updated(first, sum.size_bytes());
  }
}

Status StepLoop::hash_state() {
  if (hashes_.complete()) return {};
  parts_.writer.release(held_.step);  // a device's state is copied to where it reads
  REKINDLE_CHECK(parts_.replica.download());
  hashes_.all();
  return {};
}

// Chunks of one global batch: leaf l of chunk c evaluates test images [(c*V + l)*b, + b).
Status StepLoop::evaluate(bool& stopped) {
  const std::uint64_t leaf_batch = job_.batch_size / job_.micro_batches, tests = job_.test_samples;
  parts_.writer.expect_no_update();
  Totals sum;
  for (std::uint64_t chunk = 0; chunk * job_.batch_size < tests; ++chunk) {
    parts_.link.set_phase(TrainerPhase::kEvaluating, held_.step);
    StepHeader header;
    header.flags = own_flags() & protocol::kStopFlag;
    for (int leaf = leaves_.first; leaf < leaves_.first + leaves_.count; ++leaf) {
      const std::uint64_t first = chunk * job_.batch_size + static_cast<std::uint64_t>(leaf) * leaf_batch;
      if (first >= tests || parts_.link.aborted()) break;  // aborted: so is the exchange, which says so below
      const data::LeafBatch batch =
          data::test_batch(parts_.dataset, parts_.test_transform, first, std::min(leaf_batch, tests - first));
      REKINDLE_TRY(const model::LeafResult result, parts_.replica.evaluate(batch.images, batch.labels));
      header.loss += to_fixed(std::isfinite(result.loss) ? result.loss : kLossLimit);
      header.correct += static_cast<std::uint64_t>(result.correct);
      header.count += static_cast<std::uint64_t>(result.count);
    }
    REKINDLE_TRY(const auto headers, exchange_.gather(header));
    const Totals part = total(headers);
    sum.loss += part.loss;
    sum.correct += part.correct;
    sum.count += part.count;
    if ((part.flags & protocol::kStopFlag) != 0) {
      stopped = true;  // the evaluation is made up for at the next start
      return {};
    }
  }
  if (rank_ == 0) {
    const auto count = static_cast<double>(sum.count);
    parts_.link.send(protocol::Evaluated{start_.generation, held_.step, epoch_of(job_, held_.step - 1),
                                         sum.count, sum.loss / count,
                                         static_cast<double>(sum.correct) / count});
  }
  last_step_ = Clock::now();
  return {};
}

Status StepLoop::write_checkpoint(bool parks) {
  const auto started = Clock::now();
  if (parks || parts_.writer.busy()) {
    parts_.link.set_phase(TrainerPhase::kWriting, held_.step);
    parts_.writer.finish();
  }
  REKINDLE_CHECK(hash_state());
  if (parks) log_info(str("the state of step ", held_.step, " is written before this trainer parks"));
  parts_.link.checkpoint_begins();
  parts_.writer.begin({start_.generation, held_.step, ranks_, rank_}, parts_.replica.state(), hashes_.all(),
                      parts_.replica.arenas(), parks);
  saved_ = true;
  if (parks) parts_.writer.finish();
  parts_.last_checkpoint = Clock::now();
  checkpoint_ms_ += ms_since(started);
  return {};
}

Parked StepLoop::park(ParkReason reason, const std::string& detail) {
  parts_.loader.stop();
  parts_.writer.expect_no_update();
  parts_.link.set_phase(TrainerPhase::kIdle, held_.step);
  return Parked{start_.generation, parts_.link.trainer(), held_.whole, held_.step, reason, -1, {}, detail};
}

Parked StepLoop::park(const Error& error) {
  if (model::is_abandoned(error) || exchange::is_aborted(error))
    return park(ParkReason::kAborted, error.line());
  const bool altered = exchange::is_altered(error);
  Parked parked = park(altered ? ParkReason::kDataAltered : ParkReason::kExchangeFailed, error.line());
  parked.peer = exchange::failed_rank(error);
  return parked;
}

}  // namespace rekindle::trainer
