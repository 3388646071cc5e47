// The Link of a real trainer process. A thread receives messages of the coordinator while the step loop
// computes, and reports the phase of the step loop twice a second. If the worker dies, this process exits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/channel.hpp"
#include "device/gpu_watch.hpp"
#include "protocol/trainer_control.hpp"
#include "trainer/link.hpp"
#include "trainer/memory.hpp"

namespace rekindle::trainer {

class SocketLink final : public Link {
 public:
  SocketLink(Fd socket, std::string trainer);
  ~SocketLink() override;

  const std::string& trainer() const override { return trainer_; }
  void send(const protocol::FromTrainer& message) override;
  std::optional<protocol::Start> wait() override;
  void enter(const protocol::GenerationId& generation, exchange::Exchange& exchange) override;
  void leave() override;
  const std::atomic<bool>& aborted() const override { return aborted_; }
  std::uint32_t flags() override;
  void checkpoint_postponed() override;
  void checkpoint_begins() override;
  void set_phase(protocol::TrainerPhase phase, std::uint64_t step) override;
  void progress() override { ++loop_.progress; }
  void block_written() override { ++loop_.blocks_written; }

  // Heartbeats report the use of this GPU from now on.
  void watch_gpu(std::unique_ptr<device::GpuWatch> watch);

 private:
  void listen();
  void on_message(const protocol::ToTrainer& message);
  void beat();
  protocol::ProcessUse use();  // since the last call
  void exit_if_worker_hangs();

  const std::string trainer_;
  Channel channel_;
  Fd closing_;  // eventfd that ends the thread

  std::mutex mutex_;
  std::condition_variable arrived_;
  protocol::TrainerControl control_;
  exchange::Exchange* exchange_ = nullptr;  // exchange of the current generation
  std::unique_ptr<device::GpuWatch> gpu_;   // nullptr: no GPU, or not known yet
  std::atomic<bool> aborted_ = false;
  // The position of the step loop, and of the writer, for heartbeats.
  struct {
    std::atomic<protocol::TrainerPhase> phase = protocol::TrainerPhase::kStarting;
    std::atomic<std::uint64_t> step = 0;
    std::atomic<std::uint64_t> progress = 0;  // excludes the activity of exchange_
    std::atomic<std::uint64_t> blocks_written = 0;
  } loop_;
  // Only used by the thread.
  struct {
    std::uint64_t peak_pss_bytes = 0, count = 0;
    CpuMeter cpu;
    std::chrono::milliseconds sent_at{0};  // boot time
    int unread = 0;  // heartbeats in a row for which the worker had not read the one before
  } beats_;
  std::thread thread_;  // last member, because the thread uses all others
};

}  // namespace rekindle::trainer
