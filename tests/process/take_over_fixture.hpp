// A run with a helper (`rekindle join`) that can take the place of the first process.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <string>

#include "base/process.hpp"
#include "live_run.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::process_test {

class TakeOver : public LiveRun {
 protected:
  Arguments join(const Arguments& more = {}) const { return Arguments{rekindle(), "join", dir()} + more; }
  // Starts a run of one worker, and this helper in it.
  void begin_with(std::optional<Program>& helper, const Arguments& more = {}) {
    begin(1, more);
    helper.emplace(join());
    wait_for_log("with 2 trainers");
    // The helper checks the run once a second; it must have seen that it is a part of the run.
    wait_for_helpers_line(*helper, "joined: 1 trainer");
  }
  static void wait_for_helpers_line(const Program& helper, const std::string& words) {
    ASSERT_TRUE(eventually([&] { return helper.printed().find(words) != std::string::npos; }))
        << helper.printed();
  }
  void wait_for_steps_of_anybody(std::uint64_t more) {
    const std::uint64_t target = reached_step(dir()) + more;
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= target; })) << log();
  }
  void kill_first_process() {
    program_->signal(SIGKILL);
    program_->wait();
  }
  // Kills all processes of the run but those of the helper.
  void kill_first_machine(const Program& helper) {
    kill_first_process();
    const auto supervised_by_helper = [&](pid_t pid) {
      return static_cast<pid_t>(stat_field(pid, 4)) == helper.pid();
    };
    for (const char* part : {"coordinator", "worker"}) {
      for (const pid_t pid : parts_of(dir(), part))
        if (!supervised_by_helper(pid)) ::kill(pid, SIGKILL);
    }
  }
  bool ended_in_order() const {
    const auto holder = run::newest_term(run::Layout(dir()));
    return holder && *holder && (*holder)->ended && !(*holder)->orphaned;
  }
};

}  // namespace rekindle::process_test
