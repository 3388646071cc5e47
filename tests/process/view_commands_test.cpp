// The commands that show runs, on a run that goes on and on one that has ended.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

class ViewCommands : public LiveRun {
 protected:
  static std::string said(const Arguments& arguments, int exit_code = 0) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    return outcome.out + outcome.err;
  }
};

TEST_F(ViewCommands, OfARunThatGoesOn) {
  begin(1);
  wait_for_step(3);
  said({"wait", dir(), "--step", "5", "--timeout", "2min"});
  EXPECT_GE(reached_step(dir()), 5U);
  EXPECT_THAT(said({"wait", dir(), "--timeout", "1s"}, 70),
              HasSubstr("after 1s the run is running at step "));
  EXPECT_THAT(said({"list", scratch_.path()}),
              AllOf(StartsWith("RUN  STATE"), HasSubstr("\nrun  running  ")));
  Program following({rekindle(), "logs", dir(), "--follow"});
  EXPECT_TRUE(
      eventually([&] { return times_in(following.printed(), "micro-batches of step 0 begin") == 1; }));
  EXPECT_EQ(times_in(following.printed(), "the run was asked to stop"), 0U);
  said({"stop", dir()});
  EXPECT_TRUE(eventually([&] { return times_in(following.printed(), "stop") > 0; })) << following.printed();
  following.signal(SIGINT);
  following.wait();
  finish_and_compare();
}

TEST_F(ViewCommands, Watch_TellsADeathAndTheEnd_AndACommandGetsThem) {
  begin(2);
  const fs::path events = scratch_ / "events";
  Program watching(
      {rekindle(), "watch", dir(), "--on-event", "cat >>" + events.string() + "; echo so >&2; exit 3"});
  wait_for_steps(5);
  const std::vector<pid_t> trainers = parts_of(dir(), "trainer");
  ASSERT_EQ(trainers.size(), 2U);
  ::kill(trainers[0], SIGKILL);
  EXPECT_TRUE(eventually([&] { return times_in(watching.printed(), "goes on with ") > 0; }))
      << watching.printed();
  said({"stop", dir()});
  program_->wait();
  EXPECT_TRUE(eventually([&] { return times_in(watching.printed(), "saved step-") > 0; }))
      << watching.printed();
  said(mnist_run(dir(), 1, static_cast<int>(reached_step(dir())) + 2));
  const Outcome outcome = watching.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("attempt 2 began on "), HasSubstr("  finished: ")));
  EXPECT_THAT(outcome.err, HasSubstr("rekindle: --on-event: exit code 3: so\n"));
  std::ifstream in(events);
  std::vector<std::string> kinds;
  for (std::string line; std::getline(in, line);) kinds.push_back(nlohmann::json::parse(line)["event"]);
  EXPECT_THAT(kinds, IsSupersetOf({"recovered", "stopped", "saved", "started", "finished"}));
  EXPECT_EQ(kinds.back(), "finished");
}

TEST_F(ViewCommands, OfARunThatHasEnded) {
  said(mnist_run(dir(), 1, 12));
  said({"wait", dir()});
  said({"wait", dir(), "--step", "12"});
  EXPECT_THAT(said({"wait", dir(), "--step", "13"}, 70),
              HasSubstr("the run ended with step 12, before step 13"));
  const auto all = nlohmann::json::parse(said({"list", "--json", scratch_.path()}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["run"], dir().string());
  EXPECT_EQ(all[0]["state"], "finished");
  EXPECT_EQ(all[0]["step"], 12);
  EXPECT_THAT(said({"plot", dir()}), AllOf(StartsWith("loss of "), HasSubstr("12\n")));
  EXPECT_THAT(said({"plot", dir(), "--metric", "nothing"}, 78),
              AllOf(HasSubstr("no values of 'nothing': it has accuracy, "), HasSubstr("loss")));
  const std::string logs = said({"logs", dir()});
  EXPECT_THAT(logs, AllOf(HasSubstr("coordinator: "), HasSubstr("worker w0"), HasSubstr("trainer w0")));
  EXPECT_LT(logs.find("coordinator: term 1"), logs.find("micro-batches of step 0 begin"));
  EXPECT_EQ(times_in(said({"logs", dir(), "--lines", "2"}), "\n"), 2U);
  EXPECT_THAT(said({"logs", dir(), "--level", "error"}), IsEmpty());
  EXPECT_THAT(said({"status", dir(), "--watch"}, 64), HasSubstr("--watch is for a terminal"));
}

// For minutes after the kill a helper may still take the run over, so the test moves the files' times back.
TEST_F(ViewCommands, OfARunWhoseProcessesAreAllKilled_WaitAndWatchEnd) {
  begin(1);
  ASSERT_TRUE(eventually([&] { return fs::exists(dir() / "status.json"); }));
  // Killed one after the other, a coordinator that is still there would report its worker's death.
  for (const pid_t pid : processes_with(dir())) ::kill(pid, SIGSTOP);
  for (const pid_t pid : processes_with(dir())) ::kill(pid, SIGKILL);
  program_->wait();
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  EXPECT_THAT(said({"wait", dir(), "--timeout", "1s"}, 70), HasSubstr("the run is ended without a report"));
  const auto make_old = [](const fs::path& file, const char* key) {
    nlohmann::json content = nlohmann::json::parse(std::ifstream(file));
    content[key] = "2001-02-03T04:05:06Z";
    std::ofstream(file) << content;
  };
  make_old(dir() / "status.json", "updated");
  for (const auto& term : fs::directory_iterator(dir() / "terms")) make_old(term.path(), "since");
  Program watching({rekindle(), "watch", dir()});  // each looks for half a minute
  EXPECT_THAT(said({"wait", dir()}, 70), AllOf(HasSubstr("the run ended without a report at step "),
                                               HasSubstr("goes on from the newest checkpoint")));
  const Outcome watched = watching.wait();
  EXPECT_EQ(watched.exit_code, 70);
  EXPECT_THAT(watched.out + watched.err, HasSubstr("the run ended without a report"));
  finish_and_compare();
}

// Storage may be away for a moment: a person who watches for days sees it again.
TEST_F(ViewCommands, StatusWatch_OutlivesAStatusThatCannotBeRead) {
  said(mnist_run(dir(), 1, 3));
  Program watching({"/usr/bin/script", "--quiet", "--flush", "--return", "--command",
                    str(rekindle(), " status ", dir().string(), " --watch"), "/dev/null"});
  const auto screens = [&] { return times_in(watching.printed(), "\033[H"); };
  ASSERT_TRUE(eventually([&] { return screens() > 0; })) << watching.printed();
  const fs::path status = dir() / "status.json";
  fs::rename(status, dir() / "kept");
  std::ofstream(status) << "no json";
  ASSERT_TRUE(
      eventually([&] { return times_in(watching.printed(), "trying again") == 1 || !watching.running(); }));
  ASSERT_TRUE(watching.running()) << watching.printed();
  const auto before = screens();
  fs::rename(dir() / "kept", status);
  EXPECT_TRUE(eventually([&] { return screens() > before; })) << watching.printed();
  watching.signal(SIGTERM);
  watching.wait();
}

TEST_F(ViewCommands, WaitBeforeTheRunHasBegun_WaitsForIt) {
  Program wait({rekindle(), "wait", dir(), "--step", "3"});
  ASSERT_TRUE(eventually([&] { return command_line(wait.pid()).starts_with(rekindle()); }));
  EXPECT_EQ(run(mnist_run(dir(), 1, 4)).exit_code, 0);
  const Outcome outcome = wait.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(ViewCommands, WhereNoRunIs_OneLineThatSaysSo) {
  fs::create_directories(scratch_ / "something");  // where nothing is, "wait" gives a run time to begin
  for (const char* command : {"logs", "plot", "wait"})
    EXPECT_THAT(said({command, scratch_.path()}, 78), HasSubstr("neither a run directory")) << command;
  EXPECT_THAT(said({"list", scratch_.path()}), StartsWith("no runs below "));
  EXPECT_THAT(said({"list", scratch_ / "none"}, 78), HasSubstr("is no folder"));
  EXPECT_THAT(said({"wait", dir(), "--timeout", "10"}, 64), HasSubstr("--timeout '10' has no unit"));
}

}  // namespace
}  // namespace rekindle::process_test
