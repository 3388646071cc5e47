// The state shared by the control thread and the step loop of a trainer: which Start counts, whether the
// generation is aborted or must pause, and what follows a step. Not thread-safe: the link of the trainer
// guards it with a mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "protocol/job.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

// Bits in the header of each step. After a step, every rank reads the OR of the flags of all ranks.
enum Flag : std::uint32_t {
  kStopFlag = 1,        // pause after this step and write a checkpoint
  kCheckpointFlag = 2,  // write a checkpoint
  kNonFiniteFlag = 4,   // the loss of a micro-batch is NaN or infinite: the step is invalid
  kPauseFlag = 8,       // pause after this step, so that trainers can join
  kWritingFlag = 16,    // the last checkpoint is still being written: a checkpoint that is due can wait
};

// The state of a replica: valid if it is exactly the state after `step`. Only the thread of the step loop
// changes it.
struct ReplicaState {
  bool valid = false;
  std::uint64_t step = 0;
};

class TrainerControl {
 public:
  // ---- control thread ----

  // True for an Abort or a Quit of the current generation: its exchange must be aborted. A message type
  // without a handler is a compile error.
  bool on_message(const ToTrainer& message);

  // ---- step loop ----

  // The newest Start, returned once; older ones are dropped. No value after Quit.
  std::optional<Start> next_start();
  bool quit() const { return quit_; }
  void enter(const GenerationId& generation);
  void leave();
  bool aborted() const;  // the current generation
  // The flags that the coordinator asked for. kCheckpointFlag is also set for a postponed checkpoint.
  std::uint32_t flags() const;
  void checkpoint_postponed() { postponed_ = true; }  // for this generation or a later one
  void checkpoint_begins() {
    save_ = {};
    postponed_ = false;
  }
  const GenerationId& generation() const { return generation_; }

 private:
  bool take(const Start& start);
  bool take(const Stop& stop);
  bool take(const PauseForJoin& pause);
  bool take(const Save& save);
  bool take(const Abort& abort);
  bool take(const Quit& quit);

  std::optional<Start> start_;
  GenerationId generation_;  // the generation that was entered last
  GenerationId newest_;      // the newest Start received
  bool inside_ = false, quit_ = false, postponed_ = false;
  GenerationId stop_, pause_, abort_, save_;
};

// What the step loop does between two steps.
struct Next {
  bool pause = false;
  PauseReason reason = PauseReason::kAgreed;
  // Write a checkpoint first, after the last one has been written. If `pause` is set, the write must be
  // finished before the pause.
  bool write = false;
  bool postponed = false;  // a checkpoint is due, but the last one is still being written
  bool evaluate = false;   // evaluate after that
};

// At the beginning of a generation, when the state of `start` has been reached.
Next after_start(const Job& job, const Start& start);
// After step `step` (number of completed steps), with the OR of the flags of all ranks.
Next after_step(const Job& job, std::uint64_t step, std::uint32_t flags);

// Steps that were never reported, because rank 0 or its worker died. Only the first source reports them; no
// value on other ranks. Removes steps after `start.step` from `history` (own steps, in order).
std::optional<StepsDone> missed_steps(const Start& start, std::deque<StepDone>& history);

// Why a trainer with state `replica` must not enter, or no value.
std::optional<std::string> refusal(const Start& start, const ReplicaState& replica);

// Whether the hash of the state after `step` steps goes into the next header. One rank has nothing to
// compare.
bool hash_due(const Job& job, std::uint64_t step, int ranks);
struct Comparison {
  bool equal = true;
  std::vector<int> minority;  // ranks whose hash differs from the majority; empty if there is no majority
};
Comparison compare_hashes(const std::vector<Hash128>& hashes);

}  // namespace rekindle::protocol
