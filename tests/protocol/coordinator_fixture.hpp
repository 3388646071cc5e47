// A coordinator without a process: the test feeds events and checks the effects.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "effects.hpp"
#include "play.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    config_ = play::small_run(80);
    config_.term = 3;
  }

  void begin() {
    machine_.emplace(config_, now_);
    workers_.clear();
    all_.clear();
  }
  std::vector<Effect> feed(const Event& event) {
    auto effects = machine_->on(now_, event);
    all_.insert(all_.end(), effects.begin(), effects.end());
    return effects;
  }
  std::vector<Effect> say(const FromTrainer& message, const std::string& worker = "w-h") {
    return feed(TrainerReported{worker, message});
  }
  std::vector<Effect> ready(const std::string& trainer, const std::string& fingerprint = "{}",
                            const std::string& host = "h") {
    return say(TrainerReady{trainer, host, "cpu", fingerprint, {}, 1}, enter("w-" + host, host));
  }
  // Registers a worker without trainers, once.
  std::string enter(const std::string& worker, const std::string& host = "h") {
    if (workers_.insert(worker).second) feed(WorkerRegistered{{worker, host, "build", 2, {}}});
    return worker;
  }
  // A trainer of `rekindle join`, with its own worker.
  std::vector<Effect> help(const std::string& trainer, const std::string& fingerprint,
                           const Address& address = {}) {
    const std::string worker = str("w-", trainer);
    workers_.insert(worker);
    feed(WorkerRegistered{{worker, worker, "build", 1, {}, true}});
    return say(TrainerReady{trainer, worker, "cpu", fingerprint, address, 1}, worker);
  }
  void run_two() {
    begin();
    ready("a");
    ready("b");
    generation_ = machine_->generation();
  }
  Paused paused(const std::string& trainer, std::uint64_t step, PauseReason reason, bool holds = true) {
    return Paused{machine_->generation(), trainer, holds, step, reason, -1, {}, "why"};
  }
  std::vector<Effect> pause(const std::string& trainer, std::uint64_t step, PauseReason reason,
                            bool holds = true) {
    return say(paused(trainer, step, reason, holds), machine_->trainers().at(trainer).worker);
  }
  std::vector<Effect> shard(int rank, std::uint64_t step, const std::string& digest = "d") {
    return say(ShardWritten{machine_->generation(), rank == 0 ? "a" : "b", step, rank, "s", "t", digest, 1});
  }
  void begin_shard(const std::string& trainer, std::uint64_t step) {
    say(ShardBegun{machine_->generation(), trainer, step});
  }
  void exit_all() {
    say(TrainerExited{"a", false, 0});
    say(TrainerExited{"b", false, 0});
  }

  // Lets time pass, with the heartbeats of the workers and the ticks of the coordinator, as without delays.
  std::vector<Effect> pass(Time time) {
    std::vector<Effect> effects;
    for (const Time end = now_ + time; now_ < end;) {
      now_ = std::min(now_ + Time(200), end);
      for (const std::string& worker : workers_) {
        std::vector<TrainerBeat> beats;
        for (const auto& [name, trainer] : machine_->trainers()) {
          if (trainer.worker != worker || silent_.contains(name)) continue;
          beats.push_back({name, TrainerPhase::kComputing, machine_->generation(), 0, ++progress_, -1, 0,
                           blocks_written_});
        }
        feed(WorkerBeatSeen{worker, beats});
      }
      const auto more = feed(Tick{});
      effects.insert(effects.end(), more.begin(), more.end());
    }
    return effects;
  }

  template <class M>
  static std::vector<std::pair<std::string, M>> sent(const std::vector<Effect>& effects) {
    std::vector<std::pair<std::string, M>> found;
    for (const SendTrainer& send : of<SendTrainer>(effects)) {
      if (const auto* m = std::get_if<M>(&send.message)) found.emplace_back(send.trainer, *m);
    }
    return found;
  }
  std::optional<Finish> finish() const {
    const auto ends = of<Finish>(all_);
    EXPECT_LE(ends.size(), 1U);
    return ends.empty() ? std::nullopt : std::optional(ends.front());
  }

  CoordinatorConfig config_;
  std::optional<Coordinator> machine_;
  Time now_{1000};
  GenerationId generation_;
  std::set<std::string> workers_, silent_;
  std::uint64_t progress_ = 0, blocks_written_ = 0;
  std::vector<Effect> all_;
};

}  // namespace rekindle::protocol
