// rekindle submit: its script, its output, and its call of a real sbatch.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "slurm/sbatch_options.hpp"

namespace rekindle::process_test {
namespace {

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

// ---- without Slurm ----

class SubmitPrint : public ::testing::Test {
 protected:
  Outcome print(const Arguments& more) {
    return run(mnist_job("submit", scratch_ / "new" / "run") + Arguments{"--print"} + more);
  }
  Scratch scratch_;
};

TEST_F(SubmitPrint, MakesNothing) {
  EXPECT_EQ(print({}).exit_code, 0);
  EXPECT_EQ(print({"--run-dir", scratch_ / "array" / "seed-%a", "--", "--array=1-3"}).exit_code, 0);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

// As a shell completes it.
TEST_F(SubmitPrint, RunDirectoryWithASlash_NamesTheJob) {
  for (const char* more : {"", "/"}) {
    const Outcome printed = print({"--run-dir", (scratch_ / "first").string() + more});
    EXPECT_TRUE(has(printed.out, "#SBATCH --job-name=first\n")) << printed.out;
    EXPECT_TRUE(
        has(printed.out, str("#SBATCH --output=", (scratch_ / "first/logs/slurm-%j.out").string(), "\n")))
        << printed.out;
  }
}

TEST_F(SubmitPrint, ForgottenDashes_SbatchsOptionsAreTakenForItsOwn) {
  const Outcome guessed = print({"--nodes=4", "--time", "1:00:00", "--exclusive", "--", "--time=2:00:00"});
  EXPECT_EQ(guessed.exit_code, 0) << guessed.err;
  EXPECT_TRUE(
      has(guessed.out, "#SBATCH --nodes=4\n#SBATCH --time 1:00:00\n#SBATCH --exclusive\n#SBATCH --time=2"))
      << guessed.out;
  EXPECT_FALSE(has(guessed.out.substr(guessed.out.find("\nexec")), "--nodes")) << guessed.out;
  EXPECT_TRUE(has(guessed.err, "write them behind --: --nodes=4 --time 1:00:00 --exclusive\n"))
      << guessed.err;
  EXPECT_TRUE(guessed.out.starts_with("#!/bin/bash\n")) << guessed.out;
  EXPECT_EQ(print({"--", "--nodes=4"}).err, "");
  const Outcome unknown = print({"--nodez=4"});
  EXPECT_EQ(unknown.exit_code, 64);
  EXPECT_TRUE(has(unknown.err, "unknown option '--nodez=4'")) << unknown.err;
}

TEST_F(SubmitPrint, Container_IsTheJobsAndNotSbatchs) {
  const Outcome taken = print({"--container", "/images/a.sif"});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_TRUE(has(taken.out.substr(taken.out.find("\nexec")), " --container /images/a.sif\n")) << taken.out;
  EXPECT_FALSE(has(taken.out, "#SBATCH --container")) << taken.out;
  EXPECT_EQ(taken.err, "");
  const Outcome sbatchs = print({"--", "--container=/bundles/b"});
  EXPECT_TRUE(has(sbatchs.out, "#SBATCH --container=/bundles/b\n")) << sbatchs.out;
}

TEST_F(SubmitPrint, OnLimitAndRequeueWithin_AreTheJobs) {
  const Outcome taken = print({"--on-limit", "resubmit", "--requeue-within", "7min"});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_TRUE(has(taken.out, " --on-limit resubmit --requeue-within 7min\n")) << taken.out;
  for (const Arguments& wrong : {Arguments{"--on-limit", "never"}, Arguments{"--requeue-within", "7"}})
    EXPECT_EQ(print(wrong).exit_code, 64) << wrong[0];
}

// Each task of an array has a directory of its own, also if a file names it.
TEST_F(SubmitPrint, PatternInAConfigFile_StaysForTheJob) {
  const fs::path file = scratch_ / "config.toml", runs = scratch_ / "runs";
  std::ofstream(file) << "run-dir = \"" << (runs / "seed-%a").string() << "\"\nseed = \"%a\"\n";
  Arguments arguments = mnist_job("submit", runs);
  ASSERT_EQ(arguments[1], "--run-dir");
  arguments[1] = "--config";
  arguments[2] = file;
  const Outcome printed = run(arguments + Arguments{"--print", "--", "--array=1-3"});
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_TRUE(has(printed.out, str("--run-dir ", (runs / "seed-%a").string(), " "))) << printed.out;
  EXPECT_TRUE(has(printed.out, str("#SBATCH --output=", (runs / "slurm-%A_%a.out").string(), "\n")))
      << printed.out;
}

// sbatch reads lines: even in quotes, a line end begins another directive or the script's commands.
TEST_F(SubmitPrint, LineEndsAndControlCharacters_AreRefusedWherever) {
  const std::string line = "x\n#SBATCH --output=/tmp/y\ntouch z";
  for (const Arguments& more : {Arguments{"--run-dir", scratch_ / line}, Arguments{"--", "--comment=" + line},
                                Arguments{"--", "--comment", line}, Arguments{"--comment=" + line},
                                Arguments{"--", "-J", "a\rb"}, Arguments{"--", "--export=A=\x1b[2J"},
                                Arguments{"--run-dir", scratch_ / "a-%a\n", "--", "--array=1-2"}}) {
    const Outcome refused = print(more);
    EXPECT_EQ(refused.exit_code, 64) << refused.out;
    EXPECT_EQ(refused.out, "");
    EXPECT_TRUE(has(refused.err, "a batch script cannot have line ends or control characters: \""))
        << refused.err;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

// ---- on real daemons ----

class SlurmSubmit : public SlurmRun {
 protected:
  std::string conf() const override { return "PartitionName=short MaxTime=30 MaxNodes=2"; }

  // `rekindle submit` of a short run in `name`.
  Outcome submit(const std::string& name, const Arguments& sbatch_options, const Arguments& more = {}) {
    return run(mnist_job("submit", scratch_ / name, 3) + more + Arguments{"--"} + sbatch_options);
  }
  // A separate line "job ID: PATH".
  static std::pair<std::string, fs::path> job_in(const Outcome& submitted) {
    static const std::regex line("(?:^|\n)job ([0-9]+): ([^\n]+)");
    std::smatch found;
    return std::regex_search(submitted.out, found, line) ? std::pair(found.str(1), fs::path(found.str(2)))
                                                         : std::pair(std::string(), fs::path());
  }
  static std::string id_in(const Outcome& submitted) { return job_in(submitted).first; }
  static fs::path path_in(const Outcome& submitted) { return job_in(submitted).second; }
};

// The oracle is Slurm's own answer about the output file.
TEST_F(SlurmSubmit, OutputWithPatterns_TheLineNamesTheFileThatIsThere) {
  const fs::path folder = scratch_ / "out put";
  for (const Arguments& options :
       {Arguments{}, Arguments{str("--output=", folder.string(), "/%j-%x-%5j-%u-%A-%a-%J-%s-%t-%n-%%.out")},
        Arguments{"--chdir", scratch_.path(), "-J", "name", "-o", "relative-%x-%j"}}) {
    const Outcome submitted = submit("patterns", options);
    ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
    const fs::path path = path_in(submitted);
    EXPECT_TRUE(eventually([&] { return fs::exists(path); })) << submitted.out;
    ASSERT_TRUE(eventually([&] { return cluster_->state(id_in(submitted)) == "COMPLETED"; }));
  }
  const Outcome array = submit("seed-%a", {"--array=1-2", "--hold"});
  EXPECT_EQ(path_in(array), scratch_ / str("slurm-", id_in(array), "_%a.out"));
}

TEST_F(SlurmSubmit, JobThatWouldNeverStart_WarnsWithSlurmsReason) {
  for (const Arguments& options : {Arguments{"--partition=short", "--time=60"}, Arguments{"--nodes=5"}}) {
    const Outcome submitted = submit("never", options);
    EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
    const std::string id = id_in(submitted);
    EXPECT_TRUE(
        has(submitted.out, str("warning: job ", id, " will never start as it is (Slurm's reason: Partition")))
        << submitted.out;
    EXPECT_TRUE(has(submitted.out, "TotalNodes=4): scancel " + id)) << submitted.out;
    EXPECT_EQ(cluster_->state(id), "PENDING");
    cluster_->command({"scancel", id});
  }
  const Outcome sound = submit("sound", {"--partition=short", "--time=20", "--nodes=2"});
  EXPECT_FALSE(has(sound.out, "warning")) << sound.out;
}

TEST_F(SlurmSubmit, DryRun_SaysWhenTheJobWouldStartAndLeavesNothing) {
  const fs::path folder = scratch_ / "place";
  fs::create_directories(folder);
  const Outcome tried = submit("place/run", {"--nodes=2"}, {"--dry-run"});
  EXPECT_EQ(tried.exit_code, 0) << tried.err;
  EXPECT_TRUE(has(tried.out, "dry run: Job ")) << tried.out;
  EXPECT_TRUE(has(tried.out, " to start at ")) << tried.out;
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_EQ(cluster_->command({"squeue", "--noheader"}), "");
  const Outcome refused = submit("place/run", {"--partition=nothing"}, {"--dry-run"});
  EXPECT_EQ(refused.exit_code, 78) << refused.out;
  EXPECT_TRUE(has(refused.err, "sbatch would refuse the job: ")) << refused.err;
}

TEST_F(SlurmSubmit, JobThatSbatchRefuses_DoesNotPend) {
  const Outcome refused = submit("refused", {"--partition=nothing"});
  EXPECT_EQ(refused.exit_code, 78) << refused.out;
  EXPECT_TRUE(has(refused.err, "sbatch refuses the job: ")) << refused.err;
  EXPECT_FALSE(has(run({"list", scratch_.path().string()}).out, "refused"));
}

TEST_F(SlurmSubmit, RunThatAJobHolds_Warns) {
  const std::string arguments = "--dependency=afterany:";
  const Outcome first = submit("twice", {"--hold"});
  EXPECT_FALSE(has(first.out, "has this run already")) << first.out;
  const std::string waiting = str("warning: Slurm job ", id_in(first), " (PENDING) has this run already");
  const Outcome second = submit("twice", {"--hold"});
  EXPECT_TRUE(has(second.out, waiting)) << second.out;
  EXPECT_FALSE(has(submit("other", {"--hold"}).out, "has this run already"));
  cluster_->command({"scancel", "--me"});
  // A running job with its own script. The job that waits for it gets no warning.
  begin({"--nodes=1"});
  const std::string running = str("warning: Slurm job ", job_, " (RUNNING) has this run already");
  const Outcome third = submit("run", {"--hold"});
  EXPECT_TRUE(has(third.out, running)) << third.out << third.err;
  cluster_->command({"scancel", id_in(third)});
  const Outcome follows = submit("run", {"--hold", arguments + job_});
  EXPECT_FALSE(has(follows.out, "has this run already")) << follows.out;
  stop_and_compare();
}

TEST_F(SlurmSubmit, RunThatLivesOutsideOfSlurm_Warns) {
  Program local(Arguments{rekindle()} + mnist_run(scratch_ / "local", 1, 1000000));
  ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / "local") >= 3; }));
  const Arguments as_it_is{"--steps", "1000000"};
  const Outcome held = submit("local", {"--hold"}, as_it_is);
  EXPECT_EQ(held.exit_code, 0) << held.err;
  EXPECT_TRUE(has(held.out, "warning: a live run on host ")) << held.out;
  EXPECT_TRUE(has(held.out, "has this run already")) << held.out;
  local.signal(SIGUSR1);
  EXPECT_EQ(local.wait().exit_code, 75);
  const std::string list = scratch_.path().string();
  EXPECT_FALSE(has(run({"list", list}).out, "local  pending"));
  EXPECT_FALSE(has(submit("local", {"--hold"}, as_it_is).out, "a live run on host "));
  EXPECT_TRUE(has(run({"list", list}).out, "local  pending")) << run({"list", list}).out;
  cluster_->command({"scancel", "--me"});
}

// Also with a letter and its value in one word.
TEST_F(SlurmSubmit, FolderOfTheOutput_IsMadeHoweverTheOptionIsWritten) {
  for (const std::string name : {"a", "b", "c"}) {
    const fs::path file = scratch_ / name / "out";
    const Arguments options = name == "a"   ? Arguments{"-o" + file.string()}
                              : name == "b" ? Arguments{"-o", file}
                                            : Arguments{"-e" + file.string()};
    const Outcome submitted = submit("folders", options + Arguments{"--hold"});
    EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
    EXPECT_TRUE(fs::is_directory(scratch_ / name)) << options[0];
  }
  cluster_->command({"scancel", "--me"});
}

TEST_F(SlurmSubmit, FolderOfTheOutput_IsMadeBelowChdir) {
  const fs::path other = scratch_ / "other";
  fs::create_directories(other);
  for (const Arguments& options : {Arguments{"--chdir=" + other.string(), "--output=logs/%j.out"},
                                   Arguments{"-D", other, "-e", "errors/%j.out"},
                                   Arguments{"--chdir=/proc/none", "--output=logs/%j.out"}}) {
    const Outcome submitted = submit("below", options + Arguments{"--hold"});
    EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  }
  EXPECT_TRUE(fs::is_directory(other / "logs") && fs::is_directory(other / "errors"));
  EXPECT_FALSE(fs::exists("logs"));
  cluster_->command({"scancel", "--me"});
}

TEST_F(SlurmSubmit, OptionsThatDoNotFit_Warn) {
  if (!has(run(mnist_run(scratch_ / "cuda", 1, 1) + Arguments{"--device", "cuda"}).err, "has no CUDA"))
    REKINDLE_SKIP(Needs::kMachine, "a build with CUDA");
  EXPECT_TRUE(
      has(submit("gpus", {"--gpus=1", "--hold"}).out, "warning: the job asks for GPUs, and this build"));
  EXPECT_FALSE(has(submit("none", {"--hold"}).out, "GPU"));
  // A job whose successor is another job need not be requeued.
  const Outcome requeues = submit("requeues", {"--no-requeue", "--hold"});
  EXPECT_TRUE(has(requeues.out, "may not be requeued")) << requeues.out;
  const Outcome follows = submit("follows", {"--no-requeue", "--hold"}, {"--on-limit", "resubmit"});
  EXPECT_FALSE(has(follows.out, "warning")) << follows.out;
}

// The table contains all options of this sbatch except `others`, and no option of rekindle.
TEST_F(SlurmSubmit, EveryOptionOfThisSbatch_IsKnown) {
  const std::set<std::string> others{"--container", "--help",    "--parsable", "--quiet", "--usage",
                                     "--verbose",   "--version", "--wait",     "--wrap"};
  const auto options_in = [](const std::string& text) {
    static const std::regex option("\n +(?:-[A-Za-z], ?)?(--[a-z-]+)");
    std::set<std::string> found;
    for (std::sregex_iterator it(text.begin(), text.end(), option), end; it != end; ++it)
      found.insert((*it)[1]);
    return found;
  };
  const auto taken = [](const std::string& option) {
    std::vector<std::string> words{option + "=1"};
    return !slurm::take_sbatch_options(words).empty();
  };
  const auto sbatchs = options_in(cluster_->command({"sbatch", "--help"}));
  EXPECT_GT(sbatchs.size(), 80U);
  for (const std::string& option : sbatchs) EXPECT_NE(taken(option), others.contains(option)) << option;
  const auto own = options_in(run({"submit", "--help"}).out);
  EXPECT_TRUE(own.contains("--run-dir"));
  for (const std::string& option : own) EXPECT_FALSE(taken(option)) << option;
}

}  // namespace
}  // namespace rekindle::process_test
