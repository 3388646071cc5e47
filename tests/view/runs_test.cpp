#include "view/runs.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../run/run_directory_fixture.hpp"
#include "base/clock.hpp"
#include "base/process.hpp"
#include "run/trust.hpp"

namespace rekindle::view {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Runs : public run::RunDirectory {
 protected:
  fs::path make(const std::string& name) {
    fs::create_directories(path_ / name);
    std::ofstream(path_ / name / "run.toml") << "";
    return path_ / name;
  }
  static void write_status(const fs::path& directory, const nlohmann::json& status) {
    std::ofstream(directory / "status.json") << status;
  }
};

TEST_F(Runs, AreFoundBelowAFolder_AndNotInsideARun) {
  make("b/second");
  make("a");
  make("a/inside");
  make(".hidden/run");
  make("1/2/3/4/5/deep");
  make("1/2/3/4/5/6/deeper");
  fs::create_directory_symlink(path_ / "a", path_ / "link");
  EXPECT_THAT(find_all_runs(path_).runs,
              ElementsAre(path_ / "1/2/3/4/5/deep", path_ / "a", path_ / "b/second"));
  EXPECT_THAT(find_all_runs(path_ / "a").runs, ElementsAre(path_ / "a"));
  EXPECT_THAT(find_all_runs(path_ / "none").runs, IsEmpty());
}

TEST_F(Runs, Summary_HasWhatStatusSays) {
  const fs::path directory = make("run");
  EXPECT_EQ(summarize(directory).state, "new");
  write_status(directory,
               {{"state", "saved"}, {"attempt", 3}, {"step", 7}, {"steps", 10}, {"loss", 0.5}, {"term", 3}});
  const RunSummary summary = summarize(directory);
  EXPECT_EQ(summary.state, "saved");
  EXPECT_EQ(summary.attempt, 3U);
  EXPECT_EQ(summary.step, 7U);
  EXPECT_EQ(summary.steps, 10U);
  EXPECT_EQ(summary.loss, 0.5);
  EXPECT_EQ(summary.problem, "");
  write_status(directory, {{"state", "saved"}, {"attempt", 3}, {"step", 7}, {"loss", nullptr}});
  EXPECT_EQ(summarize(directory).loss, std::nullopt) << "a number that is not finite";
}

TEST_F(Runs, WhichAreSubmittedOnly_AreFoundAndPend) {
  const auto submit = [this](const std::string& name, const std::string& text) {
    fs::create_directories(path_ / name);
    std::ofstream(path_ / name / "job.sh") << text;
    return path_ / name;
  };
  const std::string script = "#!/bin/bash\n# Written by rekindle submit. More.\n";
  const fs::path waiting = submit("waiting", script);
  submit("example", "#!/bin/bash\nexec rekindle slurm\n");
  submit("array", script);
  submit("a/b/c/deep", script);
  EXPECT_THAT(find_all_runs(path_).runs, ElementsAre(path_ / "a/b/c/deep", path_ / "array", waiting));
  EXPECT_EQ(summarize(waiting).shown, "pending");
  EXPECT_EQ(summarize(waiting).state, "new");
  make("array/1");
  EXPECT_THAT(find_all_runs(path_ / "array").runs, ElementsAre(path_ / "array/1"));
}

TEST_F(Runs, WhoseJobIsQueuedAgain_Pend) {
  std::ofstream(path_ / "run.toml") << "";
  write_status(path_, {{"state", "saved"}, {"attempt", 1}, {"term", 1}});
  run::Holder holder;
  holder.term = 1;
  holder.slurm_job = "7";
  const run::Layout layout(path_, Trust::kForeign);
  const auto shown = [&](const char* state) {
    return shown_state(layout, state_of({{"state", state}, {"term", 1}}, holder), holder);
  };
  EXPECT_EQ(shown("saved"), "saved");
  const auto record = [&](const nlohmann::json& line) {
    std::ofstream(layout.attempts().path(), std::ios::app) << line << "\n";
  };
  record({{"event", "slurm-begin"}});
  record({{"event", "slurm-end"}, {"cause", "time limit"}, {"requeued", true}});
  EXPECT_EQ(shown("saved"), "pending");
  EXPECT_EQ(shown("finished"), "finished");
  record({{"event", "slurm-begin"}});
  EXPECT_EQ(shown("saved"), "saved");
  record({{"event", "slurm-end"}, {"cause", "requeued by Slurm or an operator"}});
  EXPECT_EQ(shown("saved"), "pending");
  record({{"event", "slurm-end"}, {"cause", "cancelled"}, {"requeued", false}});
  EXPECT_EQ(shown("saved"), "saved");
  holder.slurm_job.clear();
  EXPECT_EQ(shown("saved"), "saved") << "a run without Slurm";
}

TEST_F(Runs, WhichWereSubmittedAgain_PendUntilAnAttemptBegins) {
  std::ofstream(path_ / "run.toml") << "";
  ASSERT_TRUE(claim());
  ASSERT_TRUE(run::end_term(layout_, 1));
  write_status(path_, {{"state", "saved"}, {"attempt", 1}, {"term", 1}});
  const auto shown_after = [&](const nlohmann::json& line) {
    std::ofstream(layout_.attempts().path(), std::ios::app) << line << "\n";
    return summarize(path_).shown;
  };
  EXPECT_EQ(shown_after({{"event", "begin"}}), "saved");
  EXPECT_EQ(shown_after({{"event", "submitted"}, {"job", "7"}}), "pending");
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kGoesOn);
  write_status(path_, {{"state", "finished"}, {"attempt", 1}, {"term", 1}});
  EXPECT_EQ(summarize(path_).shown, "finished");
  write_status(path_, {{"state", "failed"}, {"attempt", 1}, {"term", 1}});
  EXPECT_EQ(summarize(path_).shown, "pending");
  EXPECT_EQ(shown_after({{"event", "slurm-begin"}, {"job", "7"}}), "failed");
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kFailed);
  EXPECT_EQ(shown_after({{"event", "submitted"}, {"job", "7"}}), "failed") << "it has begun already";
  EXPECT_EQ(shown_after({{"event", "slurm-begin"}, {"job", "8_1"}}), "failed");
  EXPECT_EQ(shown_after({{"event", "submitted"}, {"job", "8"}}), "failed");
  EXPECT_EQ(shown_after({{"event", "submitted"}, {"job", "9"}}), "pending");
  EXPECT_EQ(shown_after({{"event", "begin"}}), "failed") << "it was started without Slurm meanwhile";
}

TEST_F(Runs, AreNotLookedForInData) {
  fs::create_directories(path_ / "images/zebra");
  for (int i = 0; i < 200; ++i) std::ofstream(path_ / "images" / ("n" + std::to_string(i) + ".jpg")) << "";
  make("images/zebra");
  const fs::path run = make("z");
  for (int i = 0; i < 50; ++i) std::ofstream(path_ / ("a" + std::to_string(i))) << "";
  EXPECT_THAT(find_all_runs(path_).runs, ElementsAre(run));
}

TEST_F(Runs, DamagedStatus_IsAProblemThatIsTold) {
  const fs::path directory = make("run");
  write_status(directory, {{"state", 5}});
  EXPECT_EQ(summarize(directory).state, "unknown");
  EXPECT_THAT(summarize(directory).problem, HasSubstr("status.json"));
}

TEST_F(Runs, HaveEndedForGood_WhenTheirTermHas) {
  std::ofstream(path_ / "run.toml") << "";
  write_status(path_, {{"state", "finished"}, {"attempt", 1}, {"term", 1}});
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kGoesOn);
  ASSERT_TRUE(claim());
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kGoesOn) << "the records are still written";
  ASSERT_TRUE(run::end_term(layout_, 1));
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kFinished);
  write_status(path_, {{"state", "failed"}, {"attempt", 1}, {"term", 1}});
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kFailed);
  write_status(path_, {{"state", "saved"}, {"attempt", 1}, {"term", 1}});
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kSaved);
  ASSERT_TRUE(claim());
  ASSERT_TRUE(run::end_term(layout_, 2, run::TermEnd::kOrphaned));
  write_status(path_, {{"state", "failed"}, {"attempt", 1}, {"term", 2}});
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kGoesOn) << "a helper may take it over";
}

// All processes of a run on this host were killed, or the host failed: nothing brings the run back by itself.
TEST_F(Runs, WhoseProcessesAreAllGone_AreLostWhenNoHelperTakesThemOver) {
  std::ofstream(path_ / "run.toml") << "";
  const auto outcome = [&](const char* state, const std::string& updated) {
    write_status(path_, {{"state", state}, {"attempt", 1}, {"term", 1}, {"updated", updated}});
    return outcome_of(summarize(path_));
  };
  const std::string old = "2001-02-03T04:05:06Z";
  write_term(1, host_name(), "another boot", 4711);
  EXPECT_EQ(outcome("running", utc_now()), Outcome::kGoesOn) << "a helper may still take it over";
  EXPECT_EQ(outcome("running", old), Outcome::kLost);
  EXPECT_EQ(outcome("saved", old), Outcome::kSaved) << "it waits to be started again";
  EXPECT_EQ(outcome("finished", old), Outcome::kFinished);
  fs::remove(path_ / "status.json");
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kLost) << "killed before its first status";
  write_term(2, "elsewhere", "another boot", 4711);
  EXPECT_EQ(outcome("running", old), Outcome::kGoesOn) << "no proof of a death on another host";
  write_term(3, host_name(), "another boot", 4711, pid_namespace(), utc_now());
  EXPECT_EQ(outcome("running", old), Outcome::kGoesOn) << "it was claimed just now";
}

TEST_F(Runs, ThatAreCopiesOfALiveRun_AreLost) {
  std::ofstream(path_ / "run.toml") << "";
  const std::string old = "2001-02-03T04:05:06Z";
  write_status(path_, {{"state", "running"}, {"attempt", 1}, {"term", 1}, {"updated", old}});
  nlohmann::json holder = {{"host", host_name()}, {"boot_id", boot_id()}, {"pid_namespace", pid_namespace()},
                           {"since", old},        {"pid", ::getpid()},    {"supervisor_pid", ::getppid()}};
  holder["start_ticks"] = stat_field(::getpid(), 22);
  holder["supervisor_start_ticks"] = stat_field(::getppid(), 22);
  write_claim(1, holder);
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kGoesOn);
  holder["directory_inode"] = str(run::inode_of(layout_).value() + 1);
  fs::last_write_time(path_ / "status.json", fs::file_time_type::clock::now() - std::chrono::hours(1));
  write_claim(1, holder);
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kLost);
  EXPECT_THAT(summarize(path_).state, HasSubstr("ended without a report"));
}

TEST_F(Runs, OfAJobWhoseProcessesAreGone_GoOn) {
  std::ofstream(path_ / "run.toml") << "";
  write_status(path_, {{"state", "running"}, {"attempt", 1}, {"term", 1}});
  fs::create_directories(layout_.terms().path());
  std::ofstream((layout_.terms() / "0001").path())
      << nlohmann::json{{"host", host_name()}, {"boot_id", "another"}, {"pid_namespace", "p"},
                        {"pid", 4711},         {"start_ticks", 1},     {"since", "2001-02-03T04:05:06Z"},
                        {"slurm_job", "7"}};
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kGoesOn) << "Slurm queues it again";
  const auto record = [&](const char* event) {
    std::ofstream(layout_.attempts().path(), std::ios::app) << nlohmann::json{{"event", event}} << "\n";
    return outcome_of(summarize(path_));
  };
  EXPECT_EQ(record("begin"), Outcome::kLost) << "rekindle local in a shell of the job";
  EXPECT_EQ(record("slurm-begin"), Outcome::kGoesOn);
  record("begin");
  EXPECT_EQ(record("slurm-successor"), Outcome::kGoesOn);
}

TEST_F(Runs, WhoseSupervisorDiedAndNoHelperCame_HaveFailed) {
  std::ofstream(path_ / "run.toml") << "";
  write_term(1, host_name(), "another boot", 4711);
  ASSERT_TRUE(run::end_term(layout_, 1, run::TermEnd::kOrphaned));
  write_status(path_,
               {{"state", "failed"}, {"attempt", 1}, {"term", 1}, {"updated", "2001-02-03T04:05:06Z"}});
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kFailed);
}

TEST_F(Runs, OfAJob_HaveEndedWhenItIsNotQueuedAgain) {
  std::ofstream(path_ / "run.toml") << "";
  fs::create_directories(layout_.terms().path());
  std::ofstream((layout_.terms() / "0001").path())
      << nlohmann::json{{"host", host_name()}, {"boot_id", "another"}, {"pid_namespace", "p"},
                        {"pid", 4711},         {"start_ticks", 1},     {"since", "2001-02-03T04:05:06Z"},
                        {"slurm_job", "7"}};
  const auto outcome = [&](const char* state, const nlohmann::json& line) {
    write_status(path_, {{"state", state}, {"attempt", 1}, {"term", 1}});
    std::ofstream(layout_.attempts().path()) << R"({"event":"slurm-begin"})"
                                             << "\n"
                                             << line << "\n";
    return outcome_of(summarize(path_));
  };
  EXPECT_EQ(outcome("failed", {{"event", "end"}}), Outcome::kGoesOn) << "the batch script has not said yet";
  EXPECT_EQ(outcome("failed", {{"event", "slurm-end"}, {"requeued", true}}), Outcome::kGoesOn);
  EXPECT_EQ(outcome("failed", {{"event", "slurm-end"}}), Outcome::kFailed);
  EXPECT_EQ(outcome("failed", {{"event", "slurm-end"}, {"requeued", false}}), Outcome::kFailed);
  EXPECT_EQ(outcome("saved", {{"event", "end"}}), Outcome::kGoesOn) << "the batch script has not said yet";
  EXPECT_EQ(outcome("saved", {{"event", "slurm-end"}, {"requeued", true}}), Outcome::kGoesOn);
  EXPECT_EQ(outcome("saved", {{"event", "slurm-end"}, {"cause", "requeued by Slurm or an operator"}}),
            Outcome::kGoesOn);
  EXPECT_EQ(outcome("saved", {{"event", "slurm-end"}, {"requeued", false}}), Outcome::kGaveUp);
  EXPECT_EQ(outcome("saved", {{"event", "slurm-end"}, {"cause", "rekindle stop"}}), Outcome::kSaved);
  EXPECT_EQ(outcome("saved", {{"event", "slurm-end"}, {"cause", "time limit"}}), Outcome::kSaved)
      << "--on-limit exit";
  // `rekindle local` in a shell of a job has no batch script.
  std::ofstream(layout_.attempts().path(), std::ios::app) << R"({"event":"begin"})";
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kSaved);
  std::ofstream(layout_.attempts().path()) << R"({"event":"begin"})";
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kSaved);
  std::ofstream(layout_.attempts().path()) << R"({"event":"begin"})"
                                           << "\n"
                                           << R"({"event":"slurm-begin"})"
                                           << "\n"
                                           << R"({"event":"slurm-end","requeued":true})"
                                           << "\n"
                                           << R"({"event":"begin"})"
                                           << "\n";
  EXPECT_EQ(outcome_of(summarize(path_)), Outcome::kSaved) << "the job was cancelled in the queue";
}

TEST_F(Runs, RunningOnAHostThatWasBootedSince_HasEnded) {
  std::ofstream(path_ / "run.toml") << "";
  write_status(path_, {{"state", "running"}, {"attempt", 1}, {"term", 1}});
  write_term(1, host_name(), "another boot", 4711);
  EXPECT_THAT(summarize(path_).state, HasSubstr("ended without a report"));
  write_term(2, "elsewhere", "another boot", 4711);
  EXPECT_EQ(summarize(path_).state, kStarting);
}

}  // namespace
}  // namespace rekindle::view
