// A trainer's link to its worker: a thread of its own that hears the coordinator's words while the step loop
// computes, and says twice a second what the step loop is doing. The worker's death ends this process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "base/channel.hpp"
#include "exchange/exchange.hpp"
#include "protocol/messages.hpp"

namespace rekindle::trainer {

class Link {
 public:
  Link(Fd socket, std::string trainer);
  ~Link();

  const std::string& trainer() const { return trainer_; }
  void send(const protocol::FromTrainer& message);

  // The next Start, or Quit. Blocks.
  std::variant<protocol::Start, protocol::Quit> wait();

  // From enter() to leave() an Abort of that generation (or a newer one) reaches `exchange` and aborted().
  void enter(const protocol::GenerationId& generation, exchange::Exchange& exchange);
  void leave();
  const std::atomic<bool>& aborted() const { return aborted_; }
  bool stop_asked() const { return stop_asked_; }

  void set_phase(const char* phase, std::uint64_t step);

 private:
  void listen();
  void hear(const protocol::ToTrainer& message);
  void beat();

  const std::string trainer_;
  Channel channel_;
  Fd closing_;  // eventfd: ends the thread

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::variant<protocol::Start, protocol::Quit>> inbox_;
  protocol::GenerationId generation_, stop_generation_, abort_generation_;
  exchange::Exchange* exchange_ = nullptr;  // of the generation that the step loop is in
  std::atomic<bool> aborted_ = false, stop_asked_ = false;
  std::atomic<const char*> phase_ = "starting";
  std::atomic<std::uint64_t> step_ = 0;
  std::uint64_t peak_pss_bytes_ = 0, beats_ = 0;  // of the listening thread
  std::thread thread_;                            // last: it uses all of the above
};

}  // namespace rekindle::trainer
