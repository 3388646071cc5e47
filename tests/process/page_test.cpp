// The processes that watch a run from beside it: what they show, and that the run does not need them.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../needs.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

class Page : public LiveRun {
 protected:
  std::string link() const {
    std::string text;
    EXPECT_TRUE(eventually([&] {
      const Outcome outcome = run({"status", dir(), "--link"});
      text = outcome.out.substr(0, outcome.out.find('\n'));
      return outcome.exit_code == 0;
    }));
    return text;
  }
  // What an address answers, for a browser that has opened the link.
  static std::string get(const std::string& link, const std::string& address) {
    static constexpr const char* kGet =
        "import sys, urllib.request, http.cookiejar\n"
        "link, address = sys.argv[1:]\n"
        "opener = "
        "urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))\n"
        "opener.open(link, timeout=30).read()\n"
        "sys.stdout.write(opener.open(link.split('?')[0] + address, timeout=30).read().decode())\n";
    Program program({"/usr/bin/env", "python3", "-c", kGet, link, address});
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }
  static std::string environment_of(pid_t pid) {
    std::ifstream file(str("/proc/", pid, "/environ"), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> events_in(const fs::path& file) const {
    std::ifstream in(file);
    std::vector<std::string> kinds;
    for (std::string line; std::getline(in, line);) kinds.push_back(nlohmann::json::parse(line)["event"]);
    return kinds;
  }
};

TEST_F(Page, OfALiveRun_ShowsATrainersDeath_AndItsOwnDeathIsNoneOfTheRuns) {
  begin(2, {"--status-port", "0"});
  wait_for_step(3);
  const std::string page = link();
  EXPECT_THAT(page, AllOf(StartsWith("http://127.0.0.1:"), HasSubstr("/?token=")));
  EXPECT_THAT(get(page, ""), StartsWith("<!doctype html>"));
  const auto summary = [&] { return nlohmann::json::parse(get(page, "api/summary")); };
  // The page reads the run's files every now and then.
  EXPECT_TRUE(eventually([&] { return summary()["state"] == "running"; }));
  EXPECT_EQ(summary()["lanes"].size(), 2U);
  // A worker measures it with its next heartbeat.
  EXPECT_TRUE(eventually([&] { return summary()["trainers"][0]["memory_bytes"] > 0; }));
  const auto trainers = parts_of(dir(), "trainer");
  ASSERT_EQ(trainers.size(), 2U);
  ::kill(trainers[0], SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto now = summary();
    return now["recoveries"] >= 2 && now["lanes"].size() == 3;
  }));
  const auto after = summary();
  std::vector<std::string> ends;
  ends.reserve(after["lanes"].size());
  for (const auto& lane : after["lanes"])
    ends.push_back(lane["end"].is_null() ? "" : lane["end"].get<std::string>());
  EXPECT_THAT(ends, Contains(HasSubstr("killed by signal 9")));
  const auto curves = nlohmann::json::parse(get(page, "api/curves?names=loss&points=4000"));
  EXPECT_GE(curves["curves"]["loss"]["step"].size(), 3U);
  const auto boards = processes_with("rekindle-board");
  for (const pid_t board : boards)
    if (command_line(board).find(dir().string()) != std::string::npos) ::kill(board, SIGKILL);
  wait_for_steps(3);
  stop_and_compare();
}

// Asked on the login node, a compute node is reached over it.
TEST_F(Page, OnAnotherMachine_TheLineForSshGoesOverThisOne) {
  begin(1, {"--status-port", "0"});
  wait_for_step(2);
  const std::string page = link();
  const auto line = [&] { return run({"status", dir(), "--link"}).out.substr(page.size() + 1); };
  EXPECT_THAT(line(), AllOf(StartsWith("on your own machine, first: ssh -N -L "), Not(HasSubstr("-J"))));
  const fs::path file = dir() / "page.json";
  nlohmann::json place = nlohmann::json::parse(std::ifstream(file));
  const std::string here = place["host"];
  place["host"] = "compute-7";
  std::ofstream(file) << place;
  EXPECT_THAT(line(), HasSubstr(" -J " + here + " compute-7\n"));
  stop_and_compare();
}

// Others can read a batch log.
TEST_F(Page, IntoAFile_ARunPrintsNoSecret) {
  begin(1, {"--status-port", "0"});
  wait_for_step(2);
  const std::string token = link().substr(link().find("token=") + 6);
  ASSERT_GT(token.size(), 20U);
  EXPECT_THAT(program_->printed(),
              AllOf(HasSubstr("rekindle status " + dir().string() + " --link"), Not(HasSubstr(token))));
  std::size_t environments = 0;
  for (const pid_t pid : processes_with(dir().string())) {
    const std::string environment = environment_of(pid);
    environments += environment.empty() ? 0 : 1;
    EXPECT_THAT(command_line(pid), Not(HasSubstr(token)));
    EXPECT_THAT(environment, Not(HasSubstr(token))) << command_line(pid);
  }
  EXPECT_GE(environments, 5U) << "supervisor, coordinator, worker, trainer and the page's server";
  const auto mode = fs::status(dir() / "key/page-token").permissions();
  EXPECT_EQ(mode, fs::perms::owner_read | fs::perms::owner_write);
  stop_and_compare();
}

// A person at a terminal gets the link, and the line that makes the link work on the person's own machine.
// With Slurm (salloc), this machine is reached over the one where the job was submitted.
TEST_F(Page, OnATerminal_ARunPrintsTheLinkAndTheLineForSsh) {
  begin(1, {"--status-port", "0"},
        {"/usr/bin/env", "SLURM_SUBMIT_HOST=login-3", "/bin/sh", "-c",
         "exec script --quiet --flush --return --command \"$*\" /dev/null", "sh"});
  const std::string page = link(), port = page.substr(17, page.find("/?") - 17);
  ASSERT_THAT(page, StartsWith("http://127.0.0.1:" + port + "/?token="));
  const std::string tunnel = str("first: ssh -N -L ", port, ":127.0.0.1:", port, " -J login-3 ", host_name());
  EXPECT_TRUE(eventually([&] { return times_in(program_->printed(), tunnel) == 1; })) << program_->printed();
  EXPECT_THAT(program_->printed(), AllOf(HasSubstr("the page: " + page + "\r\n"), Not(HasSubstr(" --link"))));
  stop_and_compare();
}

// A second start by mistake. It has another host name, so only its coordinator finds out that the run is
// live.
TEST_F(Page, ASecondStartFromAnotherHost_TakesNothingFromTheLiveRun) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can make namespaces");
  const fs::path targets = scratch_ / "targets", got = scratch_ / "events";
  fs::create_directory(targets);
  const Arguments watched{"--status-port",        "0",
                          "--metrics-bind",       "127.0.0.1:0",
                          "--metrics-open",       "--metrics-targets",
                          targets.string(),       "--on-event",
                          "cat >>" + got.string()};
  begin(1, watched);
  wait_for_step(2);
  const std::string page = link();
  ASSERT_TRUE(eventually([&] { return !fs::is_empty(targets); }));
  const fs::path target = fs::directory_iterator(targets)->path();
  const std::string before = read_text(target).value_or("");
  ASSERT_THAT(before, HasSubstr("targets"));
  const Arguments elsewhere{
      "/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname elsewhere && exec \"$@\"", "sh"};
  const Outcome second =
      Program(elsewhere + Arguments{rekindle()} + mnist_run(dir(), 1, 1000000) + watched).wait();
  EXPECT_EQ(second.exit_code, 78) << second.out << second.err;
  EXPECT_THAT(second.err, HasSubstr("is held by a live run"));
  EXPECT_EQ(link(), page);
  EXPECT_EQ(read_text(target).value_or(""), before);
  stop_and_compare();
  EXPECT_FALSE(fs::exists(target));
  std::vector<std::string> told = events_in(got);
  EXPECT_EQ(std::count(told.begin(), told.end(), "started"), 1);
}

// The clock of the first attempt was ahead, and was set back.
TEST_F(Page, OnEvent_GetsTheEventsAfterItsStartWhateverTheClockSays) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  std::ofstream(dir() / "events.jsonl", std::ios::app)
      << R"({"event":"slow","at":"2999-01-01T00:00:00.000Z","attempt":1,"step":2,"trainer":"t"})"
      << "\n";
  const fs::path got = scratch_ / "events";
  ASSERT_EQ(run(mnist_run(dir(), 1, 4) + Arguments{"--on-event", "cat >>" + got.string()}).exit_code, 0);
  EXPECT_THAT(events_in(got), AllOf(IsSupersetOf({"started", "finished"}), Not(Contains("slow"))));
}

TEST_F(Page, OnEvent_GetsAllEventsOfTheRun) {
  const fs::path got = scratch_ / "events";
  begin(2, {"--on-event", "cat >>" + got.string()});
  wait_for_step(4);
  ::kill(parts_of(dir(), "trainer").at(0), SIGKILL);
  wait_for_steps(4);
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  EXPECT_THAT(events_in(got),
              IsSupersetOf({"started", "generation", "lost", "recovered", "saved", "stopped"}));
  EXPECT_EQ(events_in(got), events_in(dir() / "events.jsonl"));
  finish_and_compare();
  EXPECT_THAT(events_in(dir() / "events.jsonl"), IsSupersetOf({"evaluated", "finished"}));
}

TEST_F(Page, ARunThatGivesUp_SaysSoInItsEvents) {
  const fs::path got = scratch_ / "events";
  const Outcome outcome = run(mnist_run(dir(), 1, 1000) + Arguments{"--optimizer", "sgd", "--lr", "1e30",
                                                                    "--on-event", "cat >>" + got.string()});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out;
  EXPECT_THAT(events_in(dir() / "events.jsonl"), Contains("gave_up"));
  EXPECT_EQ(events_in(got), events_in(dir() / "events.jsonl"));
  EXPECT_THAT(run({"status", dir(), "--html", scratch_ / "page"}).err, "");
  EXPECT_THAT(read_text(scratch_ / "page").value_or(""), HasSubstr(R"("state":"failed")"));
}

// Slurm ends a job so, at its time limit or by scancel.
TEST_F(Page, SigtermToAllProcesses_ThePageAndTheCommandSeeTheEnd) {
  const fs::path got = scratch_ / "events", page = scratch_ / "page.html";
  begin(2, {"--on-event", "cat >>" + got.string(), "--status-html", page.string(), "--status-port", "0"});
  wait_for_step(4);
  ASSERT_THAT(link(), HasSubstr("token="));
  for (const pid_t pid : processes_with(dir())) ::kill(pid, SIGTERM);
  EXPECT_EQ(program_->wait().exit_code, 75);
  EXPECT_EQ(events_in(got), events_in(dir() / "events.jsonl"));
  EXPECT_THAT(events_in(got), IsSupersetOf({"saved", "stopped"}));
  EXPECT_THAT(read_text(page).value_or(""), HasSubstr(R"("state":"saved")"));
  EXPECT_FALSE(fs::exists(dir() / "page.json"));
  EXPECT_THAT(run({"status", dir(), "--link"}).err, HasSubstr("this run serves no page"));
  finish_and_compare();
}

TEST_F(Page, ACommandThatHangs_DelaysNothingAndIsEnded) {
  begin(1, {"--on-event", "echo $$ >>" + (scratch_ / "hooks").string() + "; sleep 1000 & sleep 1000"});
  wait_for_step(4);
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  std::ifstream in(scratch_ / "hooks");
  pid_t hook = 0;
  ASSERT_TRUE(in >> hook);
  EXPECT_TRUE(eventually([&] { return command_line(hook).empty(); }));
  EXPECT_TRUE(eventually([&] { return processes_with((scratch_ / "hooks").string()).empty(); }));
  finish_and_compare();
}

TEST_F(Page, APortThatIsTaken_IsToldAndTheRunGoesOn) {
  begin(1, {"--status-port", "0"});
  wait_for_step(2);
  const std::string page = link();
  const std::string port = page.substr(17, page.find("/?") - 17);
  const Outcome second =
      run(mnist_run(scratch_ / "other", 1, 3) +
          Arguments{"--status-port", port, "--tensorboard", "--status-html", scratch_ / "other.html"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("cannot listen on 127.0.0.1 port " + port));
  EXPECT_TRUE(fs::exists(scratch_ / "other.html")) << "without the page, the rest goes on";
  EXPECT_TRUE(fs::exists(scratch_ / "other" / "tensorboard"));
  stop_and_compare();
}

TEST_F(Page, AsOneFile_IsWrittenAtOnceAndAgainEachMinute) {
  begin(1, {"--status-html", scratch_ / "page.html"});
  const auto page = [&] { return read_text(scratch_ / "page.html").value_or(""); };
  EXPECT_TRUE(eventually([&] { return page().find("id=\"data\">") != std::string::npos; }));
  wait_for_step(4);
  const std::string first = page();
  EXPECT_TRUE(eventually([&] { return page() != first; })) << "without a request for it";
  EXPECT_THAT(page(), AllOf(HasSubstr("id=\"data\">"), HasSubstr(R"("state":"running")")));
  stop_and_compare();
}

TEST_F(Page, AsOneFile_AndWrongOptions) {
  begin(1, {"--status-html", scratch_ / "page.html"});
  wait_for_step(4);
  EXPECT_EQ(run({"status", dir(), "--html", scratch_ / "now.html"}).exit_code, 0);
  EXPECT_THAT(run({"status", dir(), "--link"}).err, HasSubstr("this run serves no page"));
  stop_and_compare();
  for (const char* name : {"page.html", "now.html"}) {
    std::ifstream in(scratch_ / name);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_THAT(text, AllOf(StartsWith("<!doctype html>"), HasSubstr("id=\"data\">{\"curves\":"),
                            Not(HasSubstr("<script src"))))
        << name;
  }
  const auto refused = [&](const Arguments& more) {
    const Outcome outcome = run(mnist_run(scratch_ / "none", 1, 3) + more);
    EXPECT_EQ(outcome.exit_code, 64);
    return outcome.err;
  };
  EXPECT_THAT(refused({"--metrics-bind", "somewhere:x"}), HasSubstr("is no address and port"));
  EXPECT_THAT(refused({"--metrics-open"}), HasSubstr("--metrics-bind"));
  EXPECT_THAT(refused({"--status-port", "70000"}), HasSubstr("--status-port"));
}

}  // namespace
}  // namespace rekindle::process_test
