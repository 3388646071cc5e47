// The step loop of one generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "data/loader.hpp"
#include "exchange/exchange.hpp"
#include "model/model.hpp"
#include "protocol/job.hpp"
#include "protocol/messages.hpp"
#include "trainer/link.hpp"

namespace rekindle::trainer {

// Bits of exchange::StepHeader::flags. Every rank reads the same OR after the same step.
enum Flag : std::uint32_t { kStopFlag = 1, kCheckpointFlag = 2, kNonFiniteFlag = 4 };

// What outlives generations.
struct Parts {
  const protocol::Job& job;
  std::filesystem::path run_dir;
  const data::Dataset& dataset;
  data::TransformConfig test_transform;
  data::Loader& loader;
  exchange::Hub& hub;
  model::Replica& replica;
  Link& link;
};

// The step whose state the replica holds whole, or none.
struct Held {
  bool whole = false;
  std::uint64_t step = 0;
};

class StepLoop {
 public:
  // `held` is kept true at every moment that matters: only the update moves it on.
  StepLoop(Parts parts, const protocol::Start& start, exchange::Exchange& exchange, Held& held);

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
  };

  Status compute_leaves(exchange::StepHeader& header, Times& times);
  // One step; what all ranks agreed on.
  Result<Totals> step();
  Status evaluate(bool& stopped);
  void write_checkpoint();
  std::uint32_t own_flags();
  static Totals total(const std::vector<exchange::StepHeader>& headers);
  protocol::Parked park(protocol::ParkReason reason, const std::string& detail = {}, int peer = -1);
  protocol::Parked park(const Error& error);

  Parts parts_;
  const protocol::Job& job_;
  const protocol::Start& start_;
  exchange::Exchange& exchange_;
  Held& held_;
  const int ranks_, rank_;
  const exchange::LeafRange leaves_;
  std::uint64_t saved_step_;  // the newest step that this generation knows to be in a checkpoint
  std::chrono::steady_clock::time_point last_checkpoint_, last_step_;
};

}  // namespace rekindle::trainer
