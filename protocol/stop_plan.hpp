// A stop that was asked for, and whether there is time to finish the step in flight before the state is
// written.
#pragma once

#include <algorithm>
#include <optional>

#include "protocol/events.hpp"

namespace rekindle::protocol {

// Invariant: without `asked` there is no `until`.
struct StopPlan {
  std::optional<StopAsked> asked;  // the first time, which says how the run ends
  Time until{0};                   // it has to be over; 0: no limit
  bool step_given_up = false;
  bool too_few = false;  // it was not asked for: there are too few trainers
  Time step_time{0}, last_step_at{0};

  explicit operator bool() const { return asked.has_value(); }
  int exit_code(int otherwise) const { return asked ? asked->exit_code : otherwise; }

  // The nearest of all limits holds. True: it is the first time.
  bool ask(const StopAsked& stop, Time now) {
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
  // Whether the step in flight would end too late for the state to be written, which takes `write_time`. Of a
  // run that has made no step yet, nobody knows how long one takes.
  bool is_too_short_for_a_step(Time now, Time write_time) const {
    if (!asked || until == Time(0)) return false;
    const Time must_write_by = until - write_time;
    return now >= must_write_by || (step_time > Time(0) && last_step_at + step_time > must_write_by);
  }
};

}  // namespace rekindle::protocol
