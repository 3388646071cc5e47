// A node of the simulated cluster: a real worker with trainers that only talk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "actors/worker_host.hpp"
#include "protocol/messages.hpp"

namespace rekindle::bench {

// On the machine's monotonic clock, alike for all processes.
std::int64_t now_ns();

// Its trainers are ready at once, take a step every half second and park when they are told to. What they are
// told is looked at no further than a worker has to: each real trainer would read its list of members on a
// core of its own.
class Node final : public actors::Trainers {
 public:
  // What happened to one trainer: "ready", "started", "aborted", and in which generation.
  using Observer = std::function<void(const char* what, const protocol::GenerationId& generation)>;

  Node(const run::Layout& layout, const protocol::WorkerConfig& config, int number, Observer observer);

  // A heartbeat of each trainer, and rank 0's step.
  void beat();

  Status start(const std::string& trainer) override;
  void send(const std::string& trainer, const std::string& message) override;
  void kill(const std::string& trainer) override;
  void leave(int exit_code) override;

 private:
  struct Trainer {
    protocol::GenerationId generation;
    int rank = -1;
    bool running = false;
    std::uint64_t first_step = 0, beats = 0, told_step = 0;
    std::int64_t started_ns = 0;
    std::uint64_t step() const;
  };
  void say(const std::string& trainer, const protocol::FromTrainer& message);

  const protocol::WorkerConfig config_;
  const int number_;
  const Observer observer_;
  std::mutex mutex_;
  std::map<std::string, Trainer> trainers_;  // guarded by mutex_
  actors::WorkerHost host_;                  // last: it calls the above
};

}  // namespace rekindle::bench
