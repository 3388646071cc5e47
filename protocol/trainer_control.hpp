// What a trainer's control thread and step loop have to agree about, without threads: which Start counts,
// whether the generation is aborted or to be cut, and what follows a step. Not thread-safe: the trainer's
// link guards it with a mutex.
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

// Bits of each step's header. Every rank reads the OR of all ranks' after the same step.
enum Flag : std::uint32_t {
  kStopFlag = 1,        // cut, and write a checkpoint
  kCheckpointFlag = 2,  // write a checkpoint
  kNonFiniteFlag = 4,   // a micro-batch's loss is not a number: the step is void
  kCutFlag = 8,         // cut: others want to join
  kWritingFlag = 16,    // the last checkpoint is still being written: others that are due can wait
};

// The step whose state a trainer holds whole, or none. Only the step loop changes it.
struct Held {
  bool whole = false;
  std::uint64_t step = 0;
};

class TrainerControl {
 public:
  // ---- control thread ----

  // True: the exchange of the generation that the step loop is in must be aborted. A kind of message that is
  // not handled does not compile.
  bool hear(const ToTrainer& message);

  // ---- step loop ----

  // The newest generation that it is to enter, once; older Starts are dropped. Nothing after quit().
  std::optional<Start> next_start();
  bool quit() const { return quit_; }
  void enter(const GenerationId& generation);
  void leave();
  bool aborted() const;  // the generation that it is in
  // kStopFlag, kCutFlag, kCheckpointFlag as told by the coordinator; kCheckpointFlag also for a postponed
  // one.
  std::uint32_t flags() const;
  void checkpoint_postponed() { postponed_ = true; }  // in whichever generation it can be made
  void checkpoint_begins() {
    save_ = {};
    postponed_ = false;
  }
  const GenerationId& generation() const { return generation_; }

 private:
  bool take(const Start& start);
  bool take(const Stop& stop);
  bool take(const Cut& cut);
  bool take(const Save& save);
  bool take(const Abort& abort);
  bool take(const Quit& quit);

  std::optional<Start> start_;
  GenerationId generation_;  // entered last
  GenerationId newest_;      // of any Start or Abort heard
  bool inside_ = false, quit_ = false, postponed_ = false;
  GenerationId stop_, cut_, abort_, save_;
};

// What a generation does between two steps.
struct Next {
  bool park = false;
  ParkReason reason = ParkReason::kCut;
  bool write = false;      // a checkpoint, before anything else and after the last one has been written; one
                           // after which it parks must be done by then
  bool postponed = false;  // one is due, but the last one is still being written
  bool evaluate = false;   // then
};

// At the beginning of a generation: `start` has been reached.
Next after_start(const Job& job, const Start& start);
// After step number `step` (steps completed), with the OR of all ranks' flags.
Next after_step(const Job& job, std::uint64_t step, std::uint32_t flags);

// The steps that nobody reported, because rank 0 died or its worker did: told by the first of those that hold
// the state, so nothing for the others. Drops from `history` (own steps, in order) what the run went back
// behind.
std::optional<StepsDone> missed_steps(const Start& start, std::deque<StepDone>& history);

// Why a trainer that holds `held` must not enter, or nothing.
std::optional<std::string> refusal(const Start& start, const Held& held);

// Whether the state after `step` steps is hashed into the next header.
bool hash_due(const Job& job, std::uint64_t step);
struct Comparison {
  bool alike = true;
  std::vector<int> minority;  // ranks that differ from most; none if no hash has the majority
};
Comparison compare_hashes(const std::vector<Hash128>& hashes);

}  // namespace rekindle::protocol
