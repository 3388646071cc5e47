// The phase of a run: a variant whose alternatives have their own deadlines and flags.
//
// Only Coordinator::advance(), and what it calls, enters a phase. The handler of an event notes in the
// present phase what must follow: break_off() or adopt(). running(), pausing() and adopting() take these
// notes into account, so that the other handlers of the same event decide by them.
//
// Invariant: after advance() there is no such note.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <variant>

#include "protocol/events.hpp"

namespace rekindle::protocol {

enum class Phase { kGathering, kAdopting, kRunning, kPausing, kQuitting, kEnded };
const char* to_text(Phase phase);

// The phases, in the order of Phase.

// There is no generation: too few trainers, a pause before the next try, or a commit that has to end first.
struct GatheringPhase {
  Time until{0};  // until then, the phase waits for more trainers than the minimum
  // A member of a generation that may still run has registered. The generation is adopted until then.
  std::optional<Time> adopt_until = {};
};
// A running generation was found, and some members have not registered yet.
struct AdoptingPhase {
  Time until{0};
};
struct RunningPhase {
  bool judged = false;  // all members have paused, and their reports have been evaluated
  bool broken = false;  // the generation cannot go on: its members must pause
};
// The generation is over; its members are pausing.
struct PausingPhase {
  Time until{0};
  bool judged = false;
};
// The run is over; its trainers are exiting.
struct QuittingPhase {
  Time until{0};
};
struct EndedPhase {};

class RunPhase {
 public:
  using State =
      std::variant<GatheringPhase, AdoptingPhase, RunningPhase, PausingPhase, QuittingPhase, EndedPhase>;

  static_assert(std::variant_size_v<State> == static_cast<std::size_t>(Phase::kEnded) + 1);
  static_assert(std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Phase::kPausing), State>,
                               PausingPhase>);

  explicit RunPhase(Time gather_until) : state_(GatheringPhase{gather_until}) {}

  Phase now() const { return static_cast<Phase>(state_.index()); }
  // nullptr: another phase.
  template <class P>
  const P* get() const {
    return std::get_if<P>(&state_);
  }

  // A generation runs, and may go on.
  bool running() const {
    const auto* const running = get<RunningPhase>();
    return running != nullptr && !running->broken;
  }
  bool pausing() const { return now() == Phase::kPausing || (now() == Phase::kRunning && !running()); }
  bool adopting() const {
    const auto* const gathering = get<GatheringPhase>();
    return now() == Phase::kAdopting || (gathering != nullptr && gathering->adopt_until);
  }
  // Whether the reports of the members that have paused were evaluated.
  bool judged() const {
    const auto* const running = get<RunningPhase>();
    const auto* const pausing = get<PausingPhase>();
    return (running != nullptr && running->judged) || (pausing != nullptr && pausing->judged);
  }

  // ---- notes of handlers; without effect in another phase ----

  // The running generation cannot go on.
  void break_off() {
    if (auto* const running = std::get_if<RunningPhase>(&state_)) running->broken = true;
  }
  // A member of a generation that may still run has registered.
  void adopt(Time until) {
    if (auto* const gathering = std::get_if<GatheringPhase>(&state_)) gathering->adopt_until = until;
    if (auto* const adopting = std::get_if<AdoptingPhase>(&state_)) adopting->until = until;
  }
  // Waits no longer for the other members than until `latest`.
  void hurry_adoption(Time latest) {
    auto* const gathering = std::get_if<GatheringPhase>(&state_);
    if (gathering != nullptr && gathering->adopt_until)
      gathering->adopt_until = std::min(*gathering->adopt_until, latest);
    if (auto* const adopting = std::get_if<AdoptingPhase>(&state_))
      adopting->until = std::min(adopting->until, latest);
  }
  // Moves the deadline.
  void postpone(Time gap) {
    std::visit(
        [gap](auto& state) {
          if constexpr (requires { state.until; }) state.until += gap;
        },
        state_);
  }

  // ---- advance() ----

  void enter(State next) { state_ = next; }
  // Marks the reports as evaluated. Returns whether they were before.
  bool judge() {
    const bool before = judged();
    if (auto* const running = std::get_if<RunningPhase>(&state_)) running->judged = true;
    if (auto* const pausing = std::get_if<PausingPhase>(&state_)) pausing->judged = true;
    return before;
  }
  void check() const;

 private:
  State state_;
};

}  // namespace rekindle::protocol
