#include "slurm/deadline.hpp"

#include <algorithm>

namespace rekindle::slurm {
namespace {

constexpr std::chrono::seconds kMargin{2};    // before Slurm kills
constexpr std::chrono::seconds kPatience{2};  // with Slurm's answer

}  // namespace

bool is_over(const JobFacts& facts) { return facts.state != "RUNNING" && facts.state != "SUSPENDED"; }

std::optional<SystemTime> stop_deadline(const Stopping& stop, SystemTime now) {
  std::optional<SystemTime> deadline;
  const auto at_most = [&deadline](SystemTime when) {
    deadline = deadline ? std::min(*deadline, when) : when;
  };
  if (stop.within) at_most(stop.signalled + *stop.within);
  if (stop.answer && is_over(*stop.answer)) {
    at_most(stop.terminated.value_or(stop.signalled) + stop.kill_wait - kMargin);
  } else if (stop.answer) {
    if (stop.answer->end) at_most(*stop.answer->end - kMargin);
  } else if (now >= stop.signalled + kPatience) {
    if (stop.terminated) at_most(*stop.terminated + stop.kill_wait - kMargin);
    if (stop.end) at_most(*stop.end - kMargin);
  }
  return deadline;
}

}  // namespace rekindle::slurm
