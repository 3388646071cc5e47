// The step loop of one generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "data/loader.hpp"
#include "exchange/exchange.hpp"
#include "model/model.hpp"
#include "protocol/job.hpp"
#include "protocol/messages.hpp"
#include "protocol/trainer_control.hpp"
#include "trainer/checkpoint_writer.hpp"
#include "trainer/link.hpp"
#include "trainer/partial_sums.hpp"
#include "trainer/state_hashes.hpp"

namespace rekindle::trainer {

using Clock = std::chrono::steady_clock;

// What outlives generations.
struct Parts {
  const protocol::Job& job;
  const data::Dataset& dataset;
  data::TransformConfig test_transform;
  data::Loader& loader;
  exchange::Hub& hub;
  model::Replica& replica;
  Link& link;
  protocol::Held& held;  // kept true at every moment that matters: only the update moves it on
  PartialSums& sums;     // of the step under way
  CheckpointWriter& writer;
  Clock::time_point& last_checkpoint;
  std::deque<protocol::StepDone>& history;  // the last steps that this replica has made
};

class StepLoop {
 public:
  StepLoop(const Parts& parts, const protocol::Start& start, exchange::Exchange& exchange);

  // Trains until the end, a cut, an abort or a failure; says why it parked.
  protocol::Parked run();

 private:
  struct Times {
    double data_ms = 0, compute_ms = 0, exchange_ms = 0, update_ms = 0;
  };
  struct Totals {  // of all ranks
    std::uint32_t flags = 0;
    double loss = 0;
    std::uint64_t correct = 0, count = 0;
    protocol::Comparison states;
  };

  // Starts the loader for what is left to compute of the step under way, and for whole steps after it.
  void begin_leaves();
  Status compute_leaf(int leaf, int slot, Times& times);
  Status compute_leaves(Times& times);
  // One step; what all ranks agreed on.
  Result<Totals> step();
  void update(const exchange::SumPiece& piece, float scale, double lr, bool hashes);
  Status hash_state();  // hashes_ is complete, and the state in host memory
  Status evaluate(bool& stopped);
  void note(const protocol::StepDone& done);
  // Begins a checkpoint; before the trainer parks, nothing may be left to write.
  Status write_checkpoint(bool parks);
  std::uint32_t own_flags();
  static Totals total(const std::vector<exchange::StepHeader>& headers);
  protocol::Parked park(protocol::ParkReason reason, const std::string& detail = {});
  protocol::Parked park(const Error& error);

  Parts parts_;
  const protocol::Job& job_;
  const protocol::Start& start_;
  exchange::Exchange& exchange_;
  protocol::Held& held_;
  const int ranks_, rank_;
  const exchange::LeafRange leaves_;
  std::vector<exchange::LeafOp> ops_;  // of the step under way
  StateHashes hashes_;                 // of the state held
  bool saved_;                         // this generation knows that the state is in a checkpoint
  Clock::time_point last_step_;
  double checkpoint_ms_ = 0;  // since last_step_: how long training stood still for a checkpoint
};

}  // namespace rekindle::trainer
