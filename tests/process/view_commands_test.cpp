// The commands that show runs, on a run that goes on and on one that has ended.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

class ViewCommands : public LiveRun {
 protected:
  static std::string said(const Arguments& arguments, int exit_code = 0) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    return outcome.out + outcome.err;
  }
  // A command in a terminal of 40 columns.
  static Arguments in_terminal(const std::string& command) {
    return {"/usr/bin/script", "--quiet", "--flush", "--return", "--command", "stty cols 40; exec " + command,
            "/dev/null"};
  }
  static std::size_t longest_line(const std::string& text) {
    std::istringstream lines(text);
    std::size_t longest = 0;
    for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
    return longest;
  }
  // What the first screen of --watch shows; empty until it is complete.
  static std::string first_screen(const std::string& printed) {
    const std::size_t begin = printed.find("\033[H"), end = printed.find("\033[J", begin);
    if (begin == std::string::npos || end == std::string::npos) return "";
    return std::regex_replace(printed.substr(begin, end - begin), std::regex("\033\\[[HK]|\r"), "");
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

// The command of the first event hangs, with another process of its group.
TEST_F(ViewCommands, ACommandThatHangs_IsKilledAtTheLimitWithItsProcessGroup) {
  said(mnist_run(dir(), 1, 3));
  const fs::path hung = scratch_ / "hung", events = scratch_ / "events";
  const std::string command =
      str("cat >>", events.string(), "; [ -e ", hung.string(), " ] && exit 0; tail -f ", events.string(),
          " >/dev/null & : >", hung.string(), "; wait");
  const Outcome outcome =
      run({"watch", dir(), "--from-start", "--event-limit-s", "5", "--on-event", command});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(hung)) << "the other process was started";
  EXPECT_THAT(outcome.err, HasSubstr("rekindle: --on-event: ended by signal 9\n"));
  EXPECT_TRUE(eventually([&] { return processes_with(events.string()).empty(); }));
  const auto lines_of = [](const fs::path& file) { return times_in(read_text(file).value_or(""), "\n"); };
  EXPECT_GT(lines_of(events), 1U);
  EXPECT_EQ(lines_of(events), lines_of(dir() / "events.jsonl")) << "the command gets the events after it";
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
  EXPECT_EQ(all[0]["evaluation"].count("test_loss"), 1U);
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

// A run that was stopped at step 4 of 9, and is to have no more than 4 now.
TEST_F(ViewCommands, OfARunThatIsCompleteWithFewerSteps) {
  said(mnist_run(dir(), 1, 4));
  nlohmann::json status = nlohmann::json::parse(std::ifstream(dir() / "status.json"));
  status.update({{"state", "saved"}, {"steps", 9}});
  std::ofstream(dir() / "status.json") << status;
  const auto shown = [&] { return said({"list", scratch_.path()}); };
  said(mnist_run(dir(), 1, 4) + Arguments{"--dry-run"});
  EXPECT_THAT(shown(), HasSubstr("\nrun  saved  4/9"));
  EXPECT_THAT(said(mnist_run(dir(), 1, 4)), HasSubstr("the run is complete: 4 steps"));
  EXPECT_THAT(shown(), HasSubstr("\nrun  finished  4/4"));
  EXPECT_THAT(said({"status", dir()}), HasSubstr("\nend      the run is complete: 4 steps"));
  said({"wait", dir()});
}

TEST_F(ViewCommands, Logs_HaveColoursOnATerminalUnlessAPersonWantsNone) {
  said(mnist_run(dir(), 1, 3));
  const std::string plain = "2001-01-01T00:00:01.000Z info    worker: all is well",
                    yellow = "2001-01-01T00:00:02.000Z warning worker: look out",
                    red = "2001-01-01T00:00:03.000Z error   worker: no more";
  std::ofstream(dir() / "logs/worker-w9.log") << plain << "\n" << yellow << "\n" << red << "\n";
  const std::string logs = str(rekindle(), " logs ", dir().string());
  const auto shown = [](const std::string& command) {
    const Outcome outcome = Program(in_terminal(command)).wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
    return outcome.out;
  };
  EXPECT_THAT(shown("env -u NO_COLOR " + logs),
              HasSubstr(str(plain, "\r\n\033[33m", yellow, "\033[0m\r\n\033[31m", red, "\033[0m\r\n")));
  EXPECT_THAT(shown("env NO_COLOR=1 " + logs),
              AllOf(HasSubstr(str(plain, "\r\n", yellow, "\r\n", red, "\r\n")), Not(HasSubstr("\033"))));
  EXPECT_THAT(said({"logs", dir()}),
              AllOf(HasSubstr(str(plain, "\n", yellow, "\n", red, "\n")), Not(HasSubstr("\033"))));
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

// Storage may be away for a moment: a person who watches for days sees it again. In a narrow terminal.
TEST_F(ViewCommands, StatusWatch_FitsIntoFortyColumns_AndOutlivesAStatusThatCannotBeRead) {
  said(mnist_run(dir(), 1, 3));
  Program watching(in_terminal(str(rekindle(), " status ", dir().string(), " --watch")));
  ASSERT_TRUE(eventually([&] { return !first_screen(watching.printed()).empty(); })) << watching.printed();
  EXPECT_GT(longest_line(said({"status", dir()})), 40U) << "a line has to be folded";
  EXPECT_THAT(first_screen(watching.printed()), HasSubstr("\nstep     3 of 3"));
  EXPECT_LE(longest_line(first_screen(watching.printed())), 40U) << watching.printed();
  const auto screens = [&] { return times_in(watching.printed(), "\033[H"); };
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

TEST_F(ViewCommands, WaitAfterAStop_EndsWhenNobodyStartsTheRunAgain) {
  begin(1);
  wait_for_step(3);
  said({"stop", dir()});
  EXPECT_THAT(said({"wait", dir()}, 75), HasSubstr("the run has saved its state at step "));
  EXPECT_EQ(program_->wait().exit_code, 75);
  finish_and_compare();
}

TEST_F(ViewCommands, WaitBeforeTheRunHasBegun_WaitsForIt) {
  Program wait({rekindle(), "wait", dir(), "--step", "3"});
  ASSERT_TRUE(eventually([&] { return command_line(wait.pid()).starts_with(rekindle()); }));
  EXPECT_EQ(run(mnist_run(dir(), 1, 4)).exit_code, 0);
  const Outcome outcome = wait.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(ViewCommands, OfARunThatWasSubmittedOnly) {
  fs::create_directories(dir());
  std::ofstream(dir() / "job.sh") << "#!/bin/bash\n# Written by rekindle submit.\n";
  EXPECT_THAT(said({"status", dir()}), HasSubstr("\nstate    pending, attempt 0"));
  EXPECT_EQ(nlohmann::json::parse(said({"status", dir(), "--json"}))["state"], "pending");
  EXPECT_THAT(said({"list", scratch_.path()}), HasSubstr("\nrun  pending"));
  EXPECT_THAT(said({"wait", dir(), "--timeout", "1s"}, 70),
              HasSubstr("after 1s the run is pending at step 0"));
  EXPECT_THAT(said({"logs", dir()}), IsEmpty());
}

TEST_F(ViewCommands, List_HasStraightColumns) {
  for (const char* name : {"kaese", "k\u00e4se"}) {
    fs::create_directories(scratch_ / name);
    std::ofstream(scratch_ / name / "run.toml") << "";
  }
  EXPECT_THAT(said({"list", scratch_.path()}),
              AllOf(HasSubstr("\nkaese  new"), HasSubstr("\nk\u00e4se   new")));
}

TEST_F(ViewCommands, List_NamesAFolderThatItSkips) {
  fs::create_directories(scratch_ / "plots/run");
  for (int i = 0; i < 200; ++i) std::ofstream(scratch_ / "plots" / str("n", i, ".png")) << "";
  EXPECT_THAT(run({"list", scratch_.path()}).err,
              HasSubstr("plots was not looked at, because it has 201 names: rekindle list "));
}

TEST_F(ViewCommands, Logs_OfARunThatCouldNotBegin) {
  fs::create_directories(dir() / "logs");
  std::ofstream(dir() / "logs/coordinator.log") << "no such data\n";
  EXPECT_THAT(said({"logs", dir()}), HasSubstr("no such data\n"));
  EXPECT_THAT(said({"status", dir()}, 78), HasSubstr("neither a run directory"));
}

TEST_F(ViewCommands, WhereNoRunIs_OneLineThatSaysSo) {
  fs::create_directories(scratch_ / "something");  // where nothing is, "wait" gives a run time to begin
  for (const char* command : {"logs", "plot", "wait"})
    EXPECT_THAT(said({command, scratch_.path()}, 78), HasSubstr("neither a run directory")) << command;
  EXPECT_THAT(said({"list", scratch_.path()}),
              AllOf(StartsWith("no runs below "), HasSubstr(": looked 6 folders deep")));
  EXPECT_THAT(said({"list", scratch_ / "none"}, 78), HasSubstr("is no folder"));
  EXPECT_THAT(said({"wait", dir(), "--timeout", "10"}, 64), HasSubstr("--timeout '10' has no unit"));
}

TEST_F(ViewCommands, List_OfAFolderThatCannotBeRead) {
  const fs::path theirs = scratch_ / "theirs";
  fs::create_directory(theirs);
  fs::permissions(theirs, fs::perms(0300));
  // Root reads everything as long as it has these capabilities.
  const Arguments without = {"/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search"};
  const Outcome outcome =
      Program((::geteuid() == 0 ? without : Arguments{}) + Arguments{rekindle(), "list", theirs}).wait();
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("theirs: Permission denied"));
  fs::permissions(theirs, fs::perms(0700));
}

}  // namespace
}  // namespace rekindle::process_test
