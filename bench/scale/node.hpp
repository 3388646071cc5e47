// A node of the simulated cluster: a real worker whose trainers only exchange messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "actors/worker_host.hpp"
#include "protocol/messages.hpp"

namespace rekindle::bench {

// The machine's monotonic clock, equal in all processes.
std::int64_t now_ns();

// The trainers are ready at once, complete a step every half second and pause on request. Their messages are
// parsed only as far as a worker must, because each real trainer would parse its member list on a core of its
// own.
class Node final : public actors::Trainers {
 public:
  // An event of one trainer ("ready", "started", "aborted"), with the generation.
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
    std::uint64_t first_step = 0, beats = 0, reported_step = 0;
    std::int64_t started_ns = 0;
    std::uint64_t step() const;
  };
  void say(const std::string& trainer, const protocol::FromTrainer& message);

  const protocol::WorkerConfig config_;
  const int number_;
  const Observer observer_;
  std::mutex mutex_;
  std::map<std::string, Trainer> trainers_;  // guarded by mutex_
  actors::WorkerHost host_;                  // declared last: the host calls the members above
};

}  // namespace rekindle::bench
