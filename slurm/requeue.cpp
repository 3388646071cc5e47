#include "slurm/requeue.hpp"

#include <algorithm>
#include <thread>

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

Requeued requeue_once(const Queue& queue, std::uint64_t restarts, std::chrono::milliseconds patience) {
  const auto until = queue.now() + patience;
  std::string detail;
  int refusals = 0;
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (const auto facts = queue.show(); !facts) {
      detail = facts.error().line();
    } else if (facts->restarts > restarts) {
      return {true, ""};
    } else if (!facts->may_requeue) {
      return {false, "the job may not be requeued (--no-requeue, or JobRequeue=0 in slurm.conf)"};
    } else if (is_cancelled(*facts)) {
      return {false, "the job was cancelled"};
    } else {
      const Status asked = queue.requeue();
      if (asked) return {true, ""};
      detail = asked.error().line();
      // An answer that never came is no refusal: the next look tells.
      if (++refusals == kRefusals) return {false, detail};
    }
    if (queue.now() + pause >= until) return {false, detail};
    queue.sleep(pause);
  }
}

}  // namespace rekindle::slurm
