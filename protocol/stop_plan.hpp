// A requested stop, the end of the run, and whether there is time to finish the step in flight before the
// state is written.
#pragma once

#include <algorithm>
#include <optional>

#include "base/invariant.hpp"
#include "protocol/events.hpp"

namespace rekindle::protocol {

// Why a run stops before its end.
enum class StopCause {
  kRequest,  // StopRun: a signal, `rekindle stop` or Slurm
  kTooFewTrainers,
  // The same reason of a pause: no worker that is left can compute the next step.
  kSamplesUnusable,
  kSamplesUnreadable,
  kExchangeFails,  // again and again, at one step
};

// Invariants: without `asked` there is no `until`, no step is given up, and the cause is kRequest.
struct StopPlan {
  std::optional<StopRun> asked;  // the first request, which decides how the run ends
  Time until{0};                 // deadline for the stop; 0: none
  bool step_given_up = false;
  StopCause cause = StopCause::kRequest;
  Time step_time{0}, last_step_at{0};
  std::optional<Finish> ending = {};              // the result of the run, once decided
  std::optional<std::uint64_t> replaced_by = {};  // the term of the coordinator that has taken over

  explicit operator bool() const { return asked.has_value(); }
  int exit_code(int otherwise) const { return asked ? asked->exit_code : otherwise; }

  void check() const {
    invariant(asked || (until == Time(0) && !step_given_up && cause == StopCause::kRequest),
              "a stop that nobody asked for");
  }

  // Stores the earliest deadline of all requests. True for the first request.
  bool ask(const StopRun& stop, Time now) {
    if (stop.within > Time(0))
      until = until == Time(0) ? now + stop.within : std::min(until, now + stop.within);
    if (asked) return false;
    asked = stop;
    return true;
  }
  void step_made(Time took, Time now) {
    step_time = took;
    last_step_at = now;
  }
  // Whether the step in flight would end too late to write the state, which takes `write_time`. Before the
  // first step the duration of a step is unknown.
  bool is_too_short_for_a_step(Time now, Time write_time) const {
    if (!asked || until == Time(0)) return false;
    const Time must_write_by = until - write_time;
    return now >= must_write_by || (step_time > Time(0) && last_step_at + step_time > must_write_by);
  }
};

}  // namespace rekindle::protocol
