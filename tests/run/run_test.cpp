#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "run/place.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"

namespace rekindle::run {
namespace {

class RunDirectory : public ::testing::Test {
 protected:
  RunDirectory() { fs::create_directories(path_); }
  ~RunDirectory() override { fs::remove_all(path_); }
  Result<std::uint64_t> claim(bool answers = true) {
    return claim_term(layout_, std::chrono::milliseconds(1), [&](const Holder&) { return answers; });
  }
  void write_term(std::uint64_t term, const std::string& host, const std::string& boot, std::int64_t pid,
                  const std::string& container = pid_namespace(),
                  const std::string& since = "2001-02-03T04:05:06Z") {
    fs::create_directories(layout_.terms().path());
    std::ofstream((layout_.terms() / str("000", term)).path())
        << nlohmann::json{{"host", host}, {"boot_id", boot},  {"pid_namespace", container},
                          {"pid", pid},   {"start_ticks", 1}, {"since", since}};
  }
  fs::path path_ = fs::temp_directory_path() / str("rekindle-run-", ::getpid());
  Layout layout_{path_};
};

TEST_F(RunDirectory, FirstClaimIsTermOneAndALiveHolderKeepsIt) {
  EXPECT_EQ(claim().value_or(0), 1U);
  const auto second = claim();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ExitCode::kConfig);
}

TEST_F(RunDirectory, HeldByASlurmJob_TheMessageNamesTheJob) {
  Holder holder;
  holder.host = "n1";
  holder.pid = 4711;
  EXPECT_NE(held_error(layout_, holder).line().find("pid 4711"), std::string::npos);
  holder.slurm_job = "12";
  const std::string line = held_error(layout_, holder).line();
  EXPECT_NE(line.find("Slurm job 12"), std::string::npos) << line;
  EXPECT_NE(line.find("scancel 12"), std::string::npos) << line;
  EXPECT_EQ(line.find("4711"), std::string::npos) << line;
}

TEST_F(RunDirectory, EndedTerm_NextClaimIsImmediate) {
  ASSERT_TRUE(claim());
  ASSERT_TRUE(end_term(layout_, 1));
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, TermOfADeadSupervisor_SucceededOnceAndNotAfterAnother) {
  write_term(1, "elsewhere", "x", 1);
  ASSERT_TRUE(end_term(layout_, 1, TermEnd::kOrphaned) && !newest_term(layout_).value()->ended)
      << "it is not its own";
  std::ofstream((layout_.terms() / "0001.ended").path()) << "2031-02-03T04:05:06Z orphaned\n";
  EXPECT_TRUE(newest_term(layout_).value()->orphaned);
  const auto succeed = [&] {
    return claim_term(
        layout_, std::chrono::milliseconds(1), [](const Holder&) { return false; }, 1);
  };
  EXPECT_EQ(succeed().value_or(0), 2U);
  write_term(3, "elsewhere", "x", 1);  // another process has succeeded the one of this process
  std::ofstream((layout_.terms() / "0003.ended").path()) << "2031-02-03T04:05:06Z\n";
  const auto late = succeed();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ExitCode::kConfig);
}

TEST_F(RunDirectory, OrderlyEnd_IsNoOrphan) {
  ASSERT_TRUE(claim());
  ASSERT_TRUE(end_term(layout_, 1));
  const auto holder = newest_term(layout_).value();
  EXPECT_TRUE(holder->ended);
  EXPECT_FALSE(holder->orphaned);
}

TEST_F(RunDirectory, DeadHolderOnThisHost_TakenOver) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(claim().value_or(0) == 1 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, ReusedPid_IsNotTheHolder) {
  write_term(1, host_name(), boot_id(), ::getpid());  // this pid, but another start time
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, HolderInAnotherContainerOfThisHost_GoneOnlyWhenItsPortIsSilent) {
  write_term(1, host_name(), boot_id(), 1 << 22, "pid:[1]");  // no such process here
  EXPECT_FALSE(claim(true));
  EXPECT_EQ(claim(false).value_or(0), 2U);
}

TEST_F(RunDirectory, HostBootedSince_TakenOver) {
  write_term(1, host_name(), "another boot", 1);  // long ago
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, AnotherHostOfThisName_GoneOnlyWhenItsPortIsSilent) {
  write_term(1, host_name(), "another boot", 1, pid_namespace(),
             utc_now());  // this one has been up for longer
  EXPECT_FALSE(claim(true));
  EXPECT_EQ(claim(false).value_or(0), 2U);
}

TEST_F(RunDirectory, HolderThatNobodyReaped_TakenOver) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(claim().value_or(0) == 1 ? 0 : 1);
  siginfo_t end{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);  // stays a zombie
  EXPECT_EQ(end.si_status, 0);
  EXPECT_EQ(claim().value_or(0), 2U);
  ::waitpid(child, nullptr, 0);
}

TEST_F(RunDirectory, HolderOnAnotherHost_GoneOnlyWhenItsPortIsSilent) {
  write_term(1, "elsewhere", "x", 1);
  EXPECT_FALSE(claim(true));
  EXPECT_EQ(claim(false).value_or(0), 2U);
}

TEST_F(RunDirectory, ClaimsAtOnce_OneWinner) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      const bool won = claim().has_value();
      if (won) ::sleep(60);  // holds it while the others try: a dead holder may be succeeded
      ::_exit(won ? 0 : 1);
    }
  }
  int winners = 0, losers = 0;
  while (winners + losers < 8) {
    int status = 0;
    ::wait(&status);
    const bool lost = WIFEXITED(status) && WEXITSTATUS(status) == 1;
    ++(lost ? losers : winners);
    if (losers < 7) continue;
    for (const pid_t child : children) ::kill(child, SIGKILL);
  }
  EXPECT_EQ(winners, 1);
}

TEST_F(RunDirectory, MetricsOfLostStepsAreRewoundAndATornLineIsDropped) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.rewind(0));
  for (int step = 1; step <= 5; ++step) ASSERT_TRUE(metrics.append({{"step", step}}));
  std::ofstream(layout_.metrics().path(), std::ios::app) << "{\"step\": 6, \"lo";
  MetricsFile again(layout_);
  ASSERT_TRUE(again.rewind(3));
  ASSERT_TRUE(again.append({{"step", 4}, {"test_loss", 1.0}}));
  EXPECT_EQ(read_lines(layout_.metrics()).size(), 4U);
  EXPECT_EQ(recorded(layout_).evaluated, std::set<std::uint64_t>{4});
}

TEST_F(RunDirectory, MetricsOutOfOrder_RewoundAllTheSame) {
  MetricsFile metrics(layout_);
  for (const int step : {1, 5, 2, 3, 6}) ASSERT_TRUE(metrics.append({{"loss", 1.0}, {"step", step}}));
  ASSERT_TRUE(metrics.rewind(3));
  std::vector<int> steps;
  for (const nlohmann::json& line : read_lines(layout_.metrics())) steps.push_back(line.at("step"));
  EXPECT_EQ(steps, (std::vector{1, 2, 3}));
}

TEST_F(RunDirectory, DamagedLinesOfTheMetrics_CountForNothing) {
  MetricsFile metrics(layout_);
  ASSERT_TRUE(metrics.append({{"loss", 1.0}, {"step", 3}}));
  ASSERT_TRUE(metrics.append({{"step", 3}, {"test_accuracy", 0.5}, {"test_loss", nullptr}}));  // not finite
  std::ofstream(layout_.metrics().path(), std::ios::app) << R"({"loss":1,"step":"7"})"
                                                         << "\n"
                                                         << R"({"step":9,"test_accuracy":"x","test_loss":1})"
                                                         << "\n"
                                                         << R"(["step":9])"
                                                         << "\n"
                                                         << R"({"step":8,"lo)";
  EXPECT_EQ(recorded(layout_).step, 3U);
  EXPECT_EQ(recorded(layout_).evaluated, std::set<std::uint64_t>{3});
  EXPECT_EQ(best_evaluated(layout_, {3, 9}), 3U);
  EXPECT_TRUE(last_evaluation(layout_));
}

// ---- files that are well-formed and wrong ----

class WrongFiles : public RunDirectory {
 protected:
  void SetUp() override { fs::create_directories(layout_.terms().path()); }
  void write(const FilePath& file, const std::string& text) const { std::ofstream(file.path()) << text; }
  std::string claim_refusal(const std::string& text) const {
    write(layout_.terms() / "0001", text);
    const auto newest = newest_term(layout_);
    if (newest) return "";
    EXPECT_EQ(newest.error().code, ExitCode::kConfig);
    return newest.error().line();
  }
};

TEST_F(WrongFiles, AClaimWithAWrongField_NamesFileAndField) {
  const std::string file = (layout_.terms() / "0001").string();
  for (const auto& [text, field] : {std::pair<std::string, std::string>{R"({"host":5})", "host"},
                                    {R"({"pid":-1})", "pid"},
                                    {R"({"start_ticks":1.5})", "start_ticks"},
                                    {R"({"slurm_restarts":"2"})", "slurm_restarts"},
                                    {R"({"supervisor_pid":[]})", "supervisor_pid"}})
    EXPECT_TRUE(claim_refusal(text).starts_with(file + ": field '" + field + "' is not a ")) << text;
  EXPECT_NE(claim_refusal(std::string(300000, '[')).find(file), std::string::npos);
  EXPECT_NE(claim_refusal(R"({"a":)" + std::string(30000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(claim_refusal("").find("is not a JSON object: remove it if no run uses"), std::string::npos);
  // No process claims the run, and none crashes, while such a file is there.
  const auto claimed = claim();
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().code, ExitCode::kConfig);
}

TEST_F(WrongFiles, ATermThatNoRunReaches_IsRefusedAndOtherNamesAreNoTerms) {
  ASSERT_EQ(claim().value_or(0), 1U);
  for (const char* name : {"00002", "2", "99999999999999999999999", "0003.tmp", "0x10", "-001"})
    write(layout_.terms() / name, "{}");
  EXPECT_EQ(newest_term(layout_).value().value().term, 1U);
  write(layout_.terms() / "18446744073709551615", "{}");
  const auto newest = newest_term(layout_);
  ASSERT_FALSE(newest);
  EXPECT_EQ(newest.error().code, ExitCode::kConfig);
  EXPECT_NE(newest.error().line().find("18446744073709551615: there are no terms above 999999999999"),
            std::string::npos)
      << newest.error().line();
}

TEST_F(WrongFiles, ThePlaceOfACoordinatorThatIsNone_IsNoPlace) {
  write(layout_.coordinator(), R"({"term":1,"host":"127.0.0.1","port":4000})");
  EXPECT_TRUE(read_place(layout_));
  for (const char* text :
       {R"({"term":"1","host":"127.0.0.1","port":4000})", R"({"term":1,"host":5,"port":4000})",
        R"({"term":1,"host":"127.0.0.1","port":70000})", R"({"term":1,"host":"127.0.0.1","port":-1})",
        R"({"term":18446744073709551615,"host":"127.0.0.1","port":4000})",
        R"({"term":9000000000000000000,"host":"127.0.0.1","port":4000})", "[]", "{}"}) {
    write(layout_.coordinator(), text);
    EXPECT_FALSE(read_place(layout_)) << text;
  }
}

TEST_F(WrongFiles, AStatusWithAWrongField_NamesFileAndField) {
  const auto refusal = [this](const std::string& text) {
    write(layout_.status(), text);
    const auto status = read_status(layout_);
    return status ? "" : status.error().line();
  };
  const std::string file = layout_.status().string();
  EXPECT_EQ(refusal(R"({"state":5})"),
            file + ": field 'state' is not a text: remove it: the run writes it anew");
  EXPECT_NE(refusal(R"({"trainers":[{"rank":"0"}]})").find("entry 1 of 'trainers': field 'rank'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"trainers":5})").find("field 'trainers' is not a list of objects"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\":" + std::string(300000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_EQ(refusal(R"({"state":"running","loss":null,"step":7,"trainers":[{"rank":-1}]})"), "");
  EXPECT_EQ(refusal(""), "") << "it is written without fsync: a crash leaves it empty";
  fs::resize_file(layout_.status().path(), std::uint64_t{1} << 40);
  EXPECT_NE(read_status(layout_).error().what.find("more than 16.8 MB"), std::string::npos);
  fs::remove(layout_.status().path());
  EXPECT_TRUE(read_status(layout_).value().empty());
}

TEST_F(WrongFiles, LinesOfRecordsWithWrongFields_AreLeftOut) {
  const std::string good = R"({"event":"begin","step":3,"number":1})";
  std::string lines = good + "\n";
  for (const char* bad :
       {R"({"event":5})", R"({"step":-1})", R"({"step":1.5})", R"({"number":"1"})", R"({"requeued":1})",
        R"({"test_accuracy":null,"test_loss":1,"step":2})", R"({"at":[]})", "[]", "5", "null"})
    lines += std::string(bad) + "\n";
  lines += R"({"deep":)" + std::string(300000, '[') + std::string(300000, ']') + "}\n";
  lines += R"({"long":")" + std::string(2 << 20, 'x') + "\"}\n" + good + "\n";
  for (const FilePath& file : {layout_.attempts(), layout_.metrics()}) {
    write(file, lines);
    EXPECT_EQ(read_lines(file).size(), 2U);
  }
  EXPECT_EQ(next_attempt(layout_), 3U);
  EXPECT_FALSE(last_evaluation(layout_));
}

TEST_F(WrongFiles, StepsThatNoRunReaches_AreNoSteps) {
  write(layout_.metrics(), "{\"step\":1,\"loss\":1}\n{\"step\":18446744073709551615,\"loss\":1}\n");
  EXPECT_EQ(recorded(layout_).step, 1U);
}

// Lines and holes of any length take little memory, and what follows is read.
TEST_F(WrongFiles, AHoleInTheRecords_IsOneLineThatIsLeftOut) {
  const std::string line = R"({"step":1,"loss":1})";
  write(layout_.metrics(), line + "\n");
  fs::resize_file(layout_.metrics().path(), std::uint64_t{64} << 20);
  std::ofstream(layout_.metrics().path(), std::ios::app) << "\n" << line << "\n";
  EXPECT_EQ(read_lines(layout_.metrics()).size(), 2U);
  // One that is not ended is removed by whoever appends.
  fs::resize_file(layout_.metrics().path(), std::uint64_t{128} << 20);
  ASSERT_TRUE(MetricsFile(layout_).append({{"step", 2}}));
  EXPECT_EQ(read_lines(layout_.metrics()).back().value("step", 0), 2);
  EXPECT_LT(fs::file_size(layout_.metrics().path()), std::uint64_t{65} << 20);
}

}  // namespace
}  // namespace rekindle::run
