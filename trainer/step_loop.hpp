// The step loop of one generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "exchange/exchange.hpp"
#include "protocol/job.hpp"
#include "protocol/messages.hpp"
#include "protocol/trainer_control.hpp"
#include "trainer/checkpoint_writer.hpp"
#include "trainer/clock.hpp"
#include "trainer/gradient_memory.hpp"
#include "trainer/link.hpp"
#include "trainer/metric_totals.hpp"
#include "trainer/partial_sums.hpp"
#include "trainer/sample_wait.hpp"
#include "trainer/state_hashes.hpp"
#include "trainer/storage.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

// The parts that a trainer uses. Each part lives longer than the trainer.
struct Parts {
  const protocol::Job& job;
  Task& task;
  exchange::Hub& hub;
  Link& link;
  CheckpointWriter& writer;
  Storage& storage;
  const Clock& clock;
};

// What a replica keeps between generations.
struct Kept {
  protocol::ReplicaState replica = {};          // always correct: invalid while it is changed or received
  PartialSums sums = {};                        // sums of the current step
  SampleWait samples;                           // samples that cannot be read now
  Clock::TimePoint last_checkpoint = {};        // start of the last checkpoint
  std::deque<protocol::StepDone> history = {};  // the last steps of this replica
  // An error of the task itself (data that cannot be read, say), or no state to start from: this trainer ends
  // with it. If it only paused, the next generation would meet the same error at once, for ever.
  Status failure = {};
};

class StepLoop {
 public:
  StepLoop(const Parts& parts, Kept& kept, const protocol::Start& start, exchange::Exchange& exchange);

  // Trains until the end, an agreed pause, an abort or a failure. Returns the reason.
  protocol::Paused run();

 private:
  struct Times {
    double data_ms = 0, compute_ms = 0, exchange_ms = 0, update_ms = 0;
  };
  struct Totals {  // over all ranks
    std::uint32_t flags = 0;
    MetricTotals values;
    protocol::Comparison states;
    bool gradient_finite = true;  // where it was looked at
  };

  // Announces the missing micro-batches of the current step, and all micro-batches of the steps after it.
  void begin_micro_batches();
  void expect_micro_batches(std::vector<int> missing);
  void expect_micro_batches_from(int leaf);
  // As Task::train() and Task::evaluate(), which are repeated while the samples cannot be read.
  Result<MicroBatchResult> train(int leaf, std::span<float> gradient);
  Result<EvaluationResult> evaluate(std::uint64_t first, std::uint64_t count);
  void report_skipped();
  Status compute_micro_batch(int leaf, int slot, Times& times);
  Status compute_micro_batches(Times& times);
  // Makes one step. Returns the totals on which all ranks agree.
  Result<Totals> step();
  // The factor of the gradient, and whether the step changes the state at all.
  struct Clipping {
    double norm = -1;  // before clipping; below 0: not computed, or not finite
    float scale = 1;   // gradient = scale * sum
    bool voided = false;
  };
  Result<bool> may_be_written(const exchange::Reduced& reduced, std::uint32_t flags);
  Result<Clipping> clip(const exchange::Reduced& reduced);
  Status apply(const exchange::Reduced& reduced, const Totals& totals, Times times);
  void update(const exchange::SumPiece& piece, const optim::Step* step, bool hashes);
  Result<Hash128> state_hash();  // for the comparison with the other ranks
  Status hash_state();           // afterwards hashes_ is complete and the state is in host memory
  Status evaluate(bool& stopped);
  void note(const protocol::StepDone& done);
  // Begins a checkpoint. If the trainer pauses afterwards, waits until the shard is written.
  Status write_checkpoint(bool pauses);
  std::uint32_t own_flags();
  static exchange::StepSums sum_of(const std::vector<exchange::StepHeader>& headers);
  static Totals total(const std::vector<exchange::StepHeader>& headers);
  protocol::Paused pause(protocol::PauseReason reason, const std::string& detail = {});
  protocol::Paused pause(const Error& error);

  const Parts parts_;
  Kept& kept_;
  const protocol::Start& start_;
  exchange::Exchange& exchange_;
  const int ranks_;
  const exchange::LeafRange leaves_;
  GradientMemory gradients_;
  std::vector<exchange::LeafOp> ops_;  // operations of the current step
  StateHashes hashes_;                 // hashes of the current state
  bool saved_;                         // the state is in a checkpoint, written or in progress
  Clock::TimePoint last_step_;
  double checkpoint_ms_ = 0;  // time spent in checkpoints since last_step_
};

}  // namespace rekindle::trainer
