// The process of a trainer, as its worker starts it, and a spare one of a Python script. No CAF.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/lifeline.hpp"
#include "base/process.hpp"
#include "base/result.hpp"
#include "protocol/job.hpp"

namespace rekindle::actors {

inline constexpr const char* kTrainerProgram = "rekindle-trainer";

struct TrainerProcess {
  Child child;
  Fd socket;  // the worker's end of its channel
  Lifeline line;
};

// What all trainers of a worker have in common.
struct TrainerCommand {
  protocol::Job job;
  std::vector<std::string> arguments;    // without --name
  std::vector<std::string> environment;  // "NAME=value"
  int first_local_rank = 0;
  std::string run;  // the same for all trainers of the run
};

// The trainer finds its number on this machine, from first_local_rank on, in LOCAL_RANK, and its run in
// REKINDLE_RUN: it chooses the GPU. Of several parts of GPUs (MIG) it sees only the one with its number.
Result<TrainerProcess> start_trainer(const TrainerCommand& command, const std::string& name);

// An interpreter that has imported torch, and waits to become a trainer: the import takes seconds, which a
// worker would lack a trainer. It reads its name and its variables from one more inherited descriptor, and
// ends if there is none. All calls are made in one thread: the kernel kills the process when the thread that
// started it ends.
class SpareTrainer {
 public:
  explicit SpareTrainer(const TrainerCommand& command) : command_(command) {}
  ~SpareTrainer();
  SpareTrainer(const SpareTrainer&) = delete;
  SpareTrainer& operator=(const SpareTrainer&) = delete;

  // A trainer was started: the machine is busy with it.
  void postpone();
  // Starts a spare if it is time and there is memory, also in place of one that has died. Returns the time
  // until the next call, in milliseconds; -1: none is needed.
  int look();
  // The spare as the trainer with that name. nullopt: there is none.
  std::optional<TrainerProcess> take(const std::string& name);

 private:
  void bury();  // a spare that has died
  struct Spare {
    TrainerProcess process;
    Fd name;  // the trainer reads it from the other end
  };
  Result<Spare> start() const;

  const TrainerCommand& command_;
  std::chrono::milliseconds due_{0};
  std::optional<Spare> spare_;
};

}  // namespace rekindle::actors
