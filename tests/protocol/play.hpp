// Real state machines of a coordinator and its workers, with a transcript of all messages between them. The
// test acts as the trainers. Messages arrive at once and in order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/coordinator.hpp"
#include "protocol/worker.hpp"

namespace rekindle::protocol::play {

// 100 steps in batches of 8 images, for two trainers.
CoordinatorConfig small_run(std::uint64_t train_samples);

class Play {
 public:
  explicit Play(CoordinatorConfig config) : config_(std::move(config)) {}

  void coordinator_starts();
  void coordinator_dies();  // connections break; the next start has the next term
  void worker_starts(const std::string& worker);
  void worker_dies(const std::string& worker);
  void trainer_warms_up(const std::string& trainer);
  void trainer_dies(const std::string& trainer, int signal);
  void trainer_crashes(const std::string& trainer, int exit_code);

  // Reports of a trainer about its newest generation.
  void pauses(const std::string& trainer, std::optional<std::uint64_t> held, PauseReason reason,
              int peer = -1, std::vector<int> differing = {});
  void writes(const std::string& trainer, std::uint64_t step, const std::string& digest = "d");
  void completes_step(const std::string& trainer, std::uint64_t step);

  void asked_to_stop(int exit_code);
  void committed(std::uint64_t step);  // the answer to the last order to commit
  void wait(Time time);                // all trainers send heartbeats with progress

  std::string transcript() const { return text_; }

 private:
  struct Actor {
    explicit Actor(WorkerConfig config, Time now) : machine(std::move(config), now) {}
    Worker machine;
    std::map<std::string, Start> trainers;  // living trainers and their newest generation
    std::uint64_t progress = 0;
  };

  void line(const std::string& from, const std::string& to, const std::string& words);
  void happens(const std::string& words);
  void connect(const std::string& worker);
  void to_coordinator(const Event& event);
  void to_worker(const std::string& worker, const WorkerEvent& event);
  void say(const std::string& trainer, const FromTrainer& message);
  void end(const std::string& trainer, bool by_signal, int code);
  void apply(const Effect& effect);
  void apply(const std::string& worker, const WorkerEffect& effect);
  Actor& worker_of(const std::string& trainer);
  std::string worker_name(const std::string& trainer) const;

  CoordinatorConfig config_;
  Time now_{0};
  std::optional<Coordinator> coordinator_;
  std::map<std::string, Actor> workers_;
  std::optional<Commit> commit_;
  std::string text_;
};

}  // namespace rekindle::protocol::play
