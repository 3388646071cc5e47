#include "slurm/requeue.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/text.hpp"

namespace rekindle::slurm {
namespace {

constexpr std::chrono::milliseconds kFirstPause{500}, kLongestPause{10000};
constexpr int kRefusals = 5;  // of a job that could be requeued: then it will not be

bool is_cancelled(const JobFacts& facts) {
  if (facts.reason == "TimeLimit") return false;
  return facts.state == "COMPLETING" || facts.state.starts_with("CANCELLED");
}

}  // namespace

Queue queue_of(const Environment& environment) {
  return {[id = environment.id()] { return show_job(id); }, [id = environment.id()] { return requeue(id); },
          [](std::chrono::milliseconds pause) { std::this_thread::sleep_for(pause); },
          [] { return std::chrono::steady_clock::now(); }};
}

Requeued requeue_once(const Queue& queue, std::uint64_t restarts, std::chrono::milliseconds patience,
                      std::optional<JobFacts> seen) {
  const auto until = queue.now() + patience;
  std::string detail;
  int refusals = 0;
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const Result<JobFacts> facts = seen ? Result<JobFacts>(*std::exchange(seen, std::nullopt)) : queue.show();
    if (!facts) {
      detail = facts.error().line();
    } else if (facts->restarts > restarts) {
      return {true, true, ""};
    } else if (!facts->may_requeue) {
      return {false, false, "it may not be (--no-requeue, or JobRequeue=0 in slurm.conf)"};
    } else if (is_cancelled(*facts)) {
      return {false, false, "it was cancelled"};
    } else {
      const Status asked = queue.requeue();
      if (asked) return {true, true, ""};
      detail = asked.error().line();
      // An answer that never came is no refusal: the next look tells.
      if (!asked.error().by_system && ++refusals == kRefusals) return {false, true, detail};
    }
    if (queue.now() + pause >= until) return {false, true, detail};
    queue.sleep(pause);
  }
}

}  // namespace rekindle::slurm
