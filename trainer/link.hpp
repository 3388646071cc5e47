// A trainer's link to its worker: a thread of its own that hears the coordinator's words while the step loop
// computes, and says twice a second what the step loop is doing. The worker's death ends this process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/channel.hpp"
#include "exchange/exchange.hpp"
#include "protocol/messages.hpp"
#include "protocol/trainer_control.hpp"

namespace rekindle::trainer {

class Link {
 public:
  Link(Fd socket, std::string trainer);
  ~Link();

  const std::string& trainer() const { return trainer_; }
  void send(const protocol::FromTrainer& message);

  // The next generation to enter, or nothing: quit. Blocks.
  std::optional<protocol::Start> wait();

  // From enter() to leave() whatever ends that generation reaches `exchange` and aborted().
  void enter(const protocol::GenerationId& generation, exchange::Exchange& exchange);
  void leave();
  const std::atomic<bool>& aborted() const { return aborted_; }
  std::uint32_t flags();  // protocol::Flag: what the coordinator wants of this generation
  void checkpoint_postponed();
  void checkpoint_begins();

  // What the step loop is doing; each call counts as progress.
  void set_phase(protocol::TrainerPhase phase, std::uint64_t step);
  void progress() { ++progress_; }

 private:
  void listen();
  void hear(const protocol::ToTrainer& message);
  void beat();
  void leave_if_nobody_reads();

  const std::string trainer_;
  Channel channel_;
  Fd closing_;  // eventfd: ends the thread

  std::mutex mutex_;
  std::condition_variable arrived_;
  protocol::TrainerControl control_;
  exchange::Exchange* exchange_ = nullptr;  // of the generation that the step loop is in
  std::atomic<bool> aborted_ = false;
  std::atomic<protocol::TrainerPhase> phase_ = protocol::TrainerPhase::kStarting;
  std::atomic<std::uint64_t> step_ = 0, progress_ = 0;  // progress_: without that of exchange_
  // Of the listening thread:
  std::uint64_t peak_pss_bytes_ = 0, beats_ = 0;
  int beats_unread_ = 0;  // in a row, at which the worker had not read the one before
  std::thread thread_;    // last: it uses all of the above
};

}  // namespace rekindle::trainer
