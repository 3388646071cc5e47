#include "slurm/requeue.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "slurm/deadline.hpp"

namespace rekindle::slurm {
namespace {

constexpr std::chrono::milliseconds kFirstPause{500}, kLongestPause{10000};

// How long a controller that answers may refuse. (For one that does not answer, the user says how long.)
constexpr std::chrono::minutes kRefuses{5};

// Errors that a later attempt would get again.
bool is_final(const std::string& error) {
  for (const char* words : {"denied", "disabled", "Invalid job id"}) {
    if (error.find(words) != std::string::npos) return true;
  }
  return false;
}

bool is_cancelled(const JobFacts& facts) {
  if (facts.reason == "TimeLimit" || shell_killed(facts) || batch_step_killed(facts) ||
      ended_by_preemption(facts))
    return false;
  return facts.state == "COMPLETING" || facts.state.starts_with("CANCELLED");
}

Queue real_queue(std::function<Result<JobFacts>()> show, std::function<Result<bool>(bool)> requeue) {
  return {std::move(show), std::move(requeue),
          [](std::chrono::milliseconds pause) { std::this_thread::sleep_for(pause); },
          [] { return std::chrono::steady_clock::now(); }};
}

}  // namespace

Queue queue_of(const Environment& environment) {
  return real_queue([id = environment.id()] { return show_job(id); },
                    [id = environment.id()](bool goes_on) -> Result<bool> {
                      REKINDLE_CHECK(requeue(id, goes_on));
                      return !goes_on;
                    });
}

Queue resubmission_of(const Environment& environment, const std::filesystem::path& script,
                      std::chrono::minutes pause, std::string& successor) {
  const auto show = [environment, &successor]() -> Result<JobFacts> {
    REKINDLE_TRY(successor, successor_of(environment.id(), environment.name));
    REKINDLE_TRY(JobFacts facts, show_job(environment.id()));
    facts.may_requeue = true;
    if (!successor.empty()) facts.restarts = environment.restarts + 1;
    return facts;
  };
  const auto submit = [environment, script, pause, &successor](bool) -> Result<bool> {
    REKINDLE_TRY(successor, submit_successor({environment.id(), environment.name, environment.array_task,
                                              script, environment.submit_directory, pause}));
    return true;
  };
  return real_queue(show, submit);
}

Requeued requeue_once(const Queue& queue, std::uint64_t restarts, std::chrono::milliseconds patience,
                      std::optional<JobFacts> seen) {
  const auto until = queue.now() + patience;
  std::string detail;
  bool at_once = true;
  auto no_answer = queue.now();  // the last time; since then the controller answers
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const Result<JobFacts> facts = seen ? Result<JobFacts>(*std::exchange(seen, std::nullopt)) : queue.show();
    if (!facts) {
      no_answer = queue.now();
      detail = facts.error().line();
    } else if (facts->restarts > restarts) {
      return {true, true, ""};
    } else if (!facts->may_requeue) {
      return {false, false, "requeue is not allowed (--no-requeue, or JobRequeue=0 in slurm.conf)"};
    } else if (is_cancelled(*facts)) {
      return {false, false, "the job was cancelled"};
    } else {
      const Result<bool> asked = queue.requeue(!is_over(*facts));
      if (asked && *asked) return {true, true, ""};
      if (asked && std::exchange(at_once, false)) continue;  // the next look shows whether Slurm accepted
      detail = asked ? "for Slurm, the job is over" : asked.error().line();
      if (is_final(detail) || queue.now() - no_answer >= kRefuses) return {false, true, detail};
    }
    if (queue.now() + pause >= until) return {false, true, detail};
    queue.sleep(pause);
  }
}

}  // namespace rekindle::slurm
