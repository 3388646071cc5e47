// Several jobs at once: arrays, and helper jobs (rekindle join) that come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "../read_lines.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

// ---- arrays ----

TEST_F(Slurm, EachArrayTaskRequeuesOnlyItself) {
  const fs::path root = scratch_ / "seed-%a";
  const fs::path path = scratch_ / "array.sh";
  std::ofstream out(path);
  out << "#!/bin/bash\n#SBATCH --requeue --open-mode=append --signal=B:USR1@30 --exclusive --nodes=1 "
         "--array=0-1\n"
      << "#SBATCH --output=" << (scratch_ / "out-%a").string() << "\nexec " << rekindle();
  for (const std::string& argument : mnist_job("slurm", root)) out << " '" << argument << "'";
  out << " --seed $SLURM_ARRAY_TASK_ID\n";
  out.close();
  job_ = cluster_->submit({}, path);
  const fs::path first = scratch_ / "seed-0", second = scratch_ / "seed-1";
  ASSERT_TRUE(eventually([&] { return reached_step(first) > 5 && reached_step(second) > 5; }));
  for (const std::string task : {"_0", "_1"}) {
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_ + task});
    ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_ + task) == 1; }));
    EXPECT_EQ(cluster_->restarts(job_ + "_1"), task == "_1" ? 1U : 0U);
  }
  for (const fs::path& run_dir : {first, second}) {
    ASSERT_TRUE(eventually(
        [&] { return run::read_lines(run::Layout(run_dir).attempts()).back().value("restarts", 0) == 1; }));
  }
  EXPECT_EQ(cluster_->restarts(job_ + "_0"), 1U);
  cluster_->command({"scancel", job_});
  ASSERT_TRUE(eventually([&] { return processes_with(scratch_.path()).empty(); }));
}

// ---- a new job instead of a requeue ----

class SlurmResubmit : public SlurmRun {
 protected:
  std::string conf() const override { return "JobRequeue=0"; }

  // Signals the job (or one of its tasks), waits for its successor job, and returns the successor's id.
  std::string follow(const std::string& job, const fs::path& run_dir) {
    const auto begun = [&] { return attempts("slurm-begin", run_dir); };
    const std::size_t before = begun().size();
    cluster_->command({"scancel", "--signal=USR1", "--batch", job});
    EXPECT_TRUE(eventually([&] { return begun().size() > before; }));
    const nlohmann::json last = begun().back();
    EXPECT_EQ(last.value("why", ""), "resubmitted after asked to stop");
    const std::uint64_t step = last.value("step", std::uint64_t{0});
    EXPECT_TRUE(eventually([&] { return reached_step(run_dir) > step; }));
    return last.value("job", "");
  }
  std::size_t jobs() const {
    const std::string all = cluster_->command({"squeue", "--noheader", "--array"});
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  }
};
constexpr const char* kNoRequeue = "--no-requeue --nodes=1 --signal=B:USR1@30";

TEST_F(SlurmResubmit, JobThatMayNotBeRequeued_FollowedByOneOther) {
  job_ = cluster_->submit({}, script({"--on-limit", "resubmit"}, "", kNoRequeue));
  wait_for_step(5);
  EXPECT_FALSE(printed("warning")) << output();
  const std::string first = job_;
  job_ = follow(job_, dir());
  EXPECT_NE(job_, first);
  job_ = follow(job_, dir());
  EXPECT_EQ(jobs(), 1U);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  stop_and_compare();
}

TEST_F(SlurmResubmit, SbatchSubmitsAndFails_StillOneOther) {
  const fs::path bin = scratch_ / "bin";
  fs::create_directories(bin);
  std::ofstream(bin / "sbatch") << "#!/bin/bash\n/usr/bin/sbatch \"$@\"\necho lost >&2\nexit 1\n";
  fs::permissions(bin / "sbatch", fs::perms::owner_all);
  const std::string path = str("export PATH=", bin.string(), ":$PATH");
  job_ = cluster_->submit({}, script({"--on-limit", "resubmit"}, path, kNoRequeue));
  wait_for_step(5);
  job_ = follow(job_, dir());
  EXPECT_EQ(jobs(), 1U);
  stop_and_compare();
}

TEST_F(SlurmResubmit, FolderOfTheSubmissionIsNotOnTheNode_SaysSoAndIsFollowed) {
  job_ = cluster_->submit({},
                          script({"--on-limit", "resubmit"}, "export SLURM_SUBMIT_DIR=/nowhere", kNoRequeue));
  wait_for_step(5);
  EXPECT_TRUE(printed("warning: this node has not the folder /nowhere")) << output();
  job_ = follow(job_, dir());
  EXPECT_EQ(jobs(), 1U);
  stop_and_compare();
}

TEST_F(SlurmResubmit, ArrayTask_FollowedByThatTaskAlone) {
  run_dir_ = scratch_ / "seed-%a";
  job_ = cluster_->submit({"--array=0-1"}, script({"--on-limit", "resubmit"}, "", kNoRequeue));
  const fs::path first = scratch_ / "seed-0", second = scratch_ / "seed-1";
  ASSERT_TRUE(eventually([&] { return reached_step(first) > 5 && reached_step(second) > 5; }));
  const std::string next = follow(job_ + "_1", second);
  EXPECT_TRUE(next.ends_with("_1")) << next;
  EXPECT_EQ(jobs(), 2U);
  EXPECT_EQ(cluster_->state(job_ + "_0"), "RUNNING");
  cluster_->command({"scancel", "--me"});
  ASSERT_TRUE(eventually([&] { return processes_with(scratch_.path()).empty(); }));
}

// ---- helper jobs that come and go ----

class SlurmFillers : public SlurmRun {
 protected:
  // A batch script that joins the run.
  fs::path filler_script() const {
    fs::path path = scratch_ / "filler.sh";
    std::ofstream(path)
        << "#!/bin/bash\n#SBATCH --partition=low-now --nodes=1 --exclusive --requeue --open-mode=append\n"
        << "#SBATCH --signal=B:USR1@30 --output=" << (scratch_ / "out-%j").string() << "\nexec " << rekindle()
        << " join " << dir().string() << "\n";
    return path;
  }
};

// One base node and two preemptible jobs that join it. With more jobs, each job has fewer micro-batches.
TEST_F(SlurmFillers, ComeAndArePreemptedAndComeBack_SameBits) {
  begin({"--nodes=1", "--nodelist=n1"});
  const fs::path filler = filler_script();
  const std::string first = cluster_->submit({"--nodelist=n2"}, filler);
  const std::string second = cluster_->submit({"--nodelist=n3"}, filler);
  const auto trainers = [&] { return trainers_now(dir()); };
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  cluster_->take("n[2-3]");
  ASSERT_TRUE(eventually([&] { return trainers() == 1; }));
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  EXPECT_EQ(cluster_->restarts(first), 1U);
  // The job's time is over, so it requests its own requeue.
  cluster_->command({"scancel", "--signal=USR1", "--batch", second});
  ASSERT_TRUE(eventually([&] { return trainers() == 2; }));
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  EXPECT_EQ(cluster_->restarts(second), 2U);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  stop_and_compare();
  EXPECT_TRUE(eventually([&] { return cluster_->state(first) == "COMPLETED"; }));
}

// Slurm or a person starts the run again. A helper in a Slurm job waits, and does not take the run over.
TEST_F(SlurmFillers, BatchScriptKilledWithAFiller_TheFillerWaitsAndHelpsTheNextJob) {
  begin({"--nodes=1", "--nodelist=n1"}, {"--checkpoint-every", "10"});
  const fs::path filler = filler_script();
  const std::string helper = cluster_->submit({"--nodelist=n2"}, filler);
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 2; }));
  const fs::path said = scratch_ / ("out-" + helper);
  const auto filler_said = [&](const std::string& words) {
    return read_text(said).value_or("").find(words) != std::string::npos;
  };
  ASSERT_TRUE(eventually([&] { return filler_said("joined: 1 trainer"); }));
  for (const pid_t pid : parts_of(dir(), "supervisor")) {
    if (command_line(pid).find(std::string("slurm") + '\0') != std::string::npos) ::kill(pid, SIGKILL);
  }
  ASSERT_TRUE(eventually([&] { return cluster_->state(job_) == "FAILED"; }));
  const std::uint64_t before = reached_step(dir());
  job_ = cluster_->submit({"--nodes=1", "--nodelist=n1"}, script({"--checkpoint-every", "10"}));
  wait_for_step(before + 20);
  EXPECT_TRUE(eventually([&] { return trainers_now(dir()) == 2; })) << read_text(said).value_or("");
  EXPECT_EQ(cluster_->state(helper), "RUNNING");
  EXPECT_FALSE(filler_said("takes its place")) << read_text(said).value_or("");
  stop_and_compare();
  EXPECT_TRUE(eventually([&] { return cluster_->state(helper) == "COMPLETED"; }));
}

}  // namespace
}  // namespace rekindle::process_test
