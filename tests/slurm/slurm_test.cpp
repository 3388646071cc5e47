// Jobs on real Slurm daemons: whatever ends an attempt, the next one goes on, and the bits are those of a
// quiet run.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <random>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "../small_disk.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

// One requeue for each attempt, and each goes on exactly where the one before ended.
TEST_F(Slurm, ThreeTimeLimits_OneRequeueEachAndSameBits) {
  begin({"--nodes=1", "--time=1"});
  wait_for_restart(3);
  stop_and_compare();
  const auto begins = attempts("slurm-begin"), ends = attempts("slurm-end");
  ASSERT_EQ(begins.size(), ends.size());
  ASSERT_GE(ends.size(), 4U);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(begins[i]["restarts"], i);
    EXPECT_EQ(begins[i]["why"], i == 0 ? "submitted" : "requeued after time limit");
    EXPECT_EQ(ends[i]["cause"], i + 1 < ends.size() ? "time limit" : "asked to stop");
    if (i > 0) {
      EXPECT_EQ(begins[i]["step"], ends[i - 1]["step"]);
    }
  }
}

TEST_F(Slurm, PreemptedWithoutGrace_GoesOnWhenNodesAreFree) {
  begin({"--nodes=2", "--partition=low-now", "--nodelist=n[1-2]"});
  const std::uint64_t before = reached_step(dir());
  cluster_->take("n[1-2]");
  wait_for_restart(1);
  EXPECT_GE(attempts("slurm-begin").back()["step"], before);
  EXPECT_TRUE(attempts("slurm-end").front()["requeued"].is_null());  // Slurm had done it
  stop_and_compare();
}

TEST_F(Slurm, OperatorRequeues_GoesOnOnce) {
  begin({"--nodes=2"});
  cluster_->command({"scontrol", "requeue", job_});
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "requeued by Slurm or an operator");
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

TEST_F(Slurm, Cancelled_SavedWithinKillWaitAndNotRequeued) {
  begin({"--nodes=2"});
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scancel", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  ASSERT_EQ(attempts("slurm-end").size(), 1U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "cancelled");
  EXPECT_GE(attempts("slurm-end")[0]["step"], before);
  EXPECT_TRUE(printed("it is not requeued"));
  finish_and_compare();
}

// To the batch script, twice; and to the tasks alone.
TEST_F(Slurm, SignalledByHand_SavedAndRequeuedOnceEach) {
  begin({"--nodes=2"});
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_for_restart(1);
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scancel", "--signal=USR1", job_});
  wait_for_restart(2);
  EXPECT_GE(attempts("slurm-begin").back()["step"], before);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 2U);
}

TEST_F(Slurm, NodeThenCoordinatorThenWorkerKilled_SameAttemptGoesOn) {
  begin({"--nodes=3"});
  const std::string head = attempts("slurm-begin")[0].value("node", "n1");
  const std::string lost = head == "n3" ? "n2" : "n3";
  const auto daemons = cluster_->daemons_on(lost), tasks = cluster_->tasks_on(lost);
  ASSERT_GE(daemons.size(), 2U);
  ASSERT_FALSE(tasks.empty());
  for (const auto& pids : {daemons, tasks}) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  }
  wait_for_steps(20);
  for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGKILL);
  wait_for_steps(20);
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 2U);
  const auto workers = parts_of(dir(), "worker");
  ASSERT_FALSE(workers.empty());
  for (const pid_t pid : workers) {
    if (command_line(pid).find("srun") == std::string::npos) {
      ::kill(pid, SIGKILL);
      break;
    }
  }
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 1; }));
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 2; }));
  wait_for_steps(20);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  EXPECT_EQ(attempts("slurm-begin").size(), 1U);
  stop_and_compare();
}

TEST_F(Slurm, JobThatMayNotBeRequeued_SaysSoAndIsSaved) {
  begin({"--nodes=1", "--no-requeue"});
  EXPECT_TRUE(printed("warning: this job may not be requeued"));
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_over();
  EXPECT_TRUE(printed("is saved, but job " + job_ + " is not requeued"));
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  finish_and_compare();
}

TEST_F(Slurm, Suspended_NobodyIsLost) {
  begin({"--nodes=2"});
  cluster_->command({"scontrol", "suspend", job_});
  ::sleep(12);  // more than --lost-after
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scontrol", "resume", job_});
  wait_for_step(before + 20);
  const auto log = read_text(run::Layout(dir()).log("coordinator"));
  EXPECT_EQ(log->find("is lost"), std::string::npos) << *log;
  stop_and_compare();
}

// SIGTERM is the first that it hears of it.
TEST_F(Slurm, TimeLimitWithoutSignal_SavedWithinKillWaitAndRequeued) {
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({}, "", "--signal=B:CONT@1"));
  wait_for_step(5);
  EXPECT_TRUE(printed("CONT is not the signal that asks for a requeue"));
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "time limit");
  EXPECT_EQ(attempts("slurm-begin").back()["step"], attempts("slurm-end").front()["step"]);
  stop_and_compare();
}

// While it starts, forms, evaluates (an epoch has 6 steps) and writes (after each step).
TEST_F(Slurm, SignalledAtRandomMoments_RequeuedOnceEach) {
  std::mt19937 random(std::random_device{}());
  begin({"--nodes=2"}, {"--checkpoint-every", "1"});
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const int ms = std::uniform_int_distribution(0, 2500)(random);
    ::usleep(1000U * static_cast<unsigned>(ms));
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
    ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == i; })) << i << " after " << ms << " ms";
    ASSERT_TRUE(eventually([&] { return cluster_->state(job_) == "RUNNING"; }));
    if (i % 2 == 0) wait_for_steps(2);
  }
  wait_for_steps(5);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 5U);
}

// The run is complete, or about to be: no attempt too many, and none too few.
TEST_F(Slurm, SignalledAfterTheLastStep_EndsComplete) {
  begin({"--nodes=1"}, {"--steps", "60"});
  wait_for_step(60);
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->state(job_), "COMPLETED");
  EXPECT_LE(cluster_->restarts(job_), 1U);
  ASSERT_EQ(run(mnist_run(scratch_ / "quiet", 2, 60)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
}

TEST_F(Slurm, SignalledWithAFullDisk_GoesOnFromTheCheckpointBefore) {
  const SmallDisk small(scratch_ / "small", 200);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  run_dir_ = small.path() / "run";
  begin({"--nodes=1"}, {"--checkpoint-every", "5"});
  wait_until_printed("is committed");
  { std::ofstream(small.path() / "ballast") << std::string(200 << 20, 'x'); }  // all that there is
  wait_until_printed("could not be written");
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; })) << output();
  fs::remove(small.path() / "ballast");
  wait_for_restart(1);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// ---- examples/slurm ----

class SlurmExamples : public SlurmRun {
 protected:
  void begin_example(const std::string& name, const Arguments& options, const Arguments& more = {}) {
    ::setenv("RUN_DIR", dir().c_str(), 1);
    ::setenv("DATA", mnist_data().c_str(), 1);
    ::setenv("REKINDLE", rekindle().c_str(), 1);
    const Arguments all = Arguments{"--output=" + (scratch_ / "out").string()} + options;
    job_ = cluster_->submit(all, REKINDLE_SOURCE "/examples/slurm/" + name,
                            Arguments{"--model", "mnist-cnn", "--batch-size", "16", "--steps", "1000000"} + more);
    if (name == "seeds.sh") return;  // each has a directory of its own
    wait_for_step(5);
    EXPECT_FALSE(printed("warning")) << output();
  }
};

TEST_F(SlurmExamples, TimeLimitAndFillers) {
  begin_example("time-limit.sh", {"--time=1", "--nodes=1"});
  const std::string filler = cluster_->submit({"--partition=low-now", "--time=10", "--output=/dev/null"},
                                              REKINDLE_SOURCE "/examples/slurm/filler.sh");
  wait_for_restart(1);
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 2; }));
  stop_and_compare();
}

TEST_F(SlurmExamples, Preemptible) {
  begin_example("preemptible.sh", {"--partition=low-now"});
  cluster_->take("n1");
  wait_for_restart(1);
  stop_and_compare();
}

TEST_F(SlurmExamples, Seeds) {
  begin_example("seeds.sh", {"--output=" + (scratch_ / "out-%a").string()}, {"--steps", "40"});
  for (const char* seed : {"1", "2", "3", "4"}) {
    ASSERT_TRUE(eventually([&] { return reached_step(dir() / str("seed-", seed)) >= 40; })) << seed;
  }
  ASSERT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  EXPECT_NE(digest_of(dir() / "seed-1"), digest_of(dir() / "seed-2"));
  ASSERT_EQ(run(mnist_run(scratch_ / "quiet", 1, 40) + Arguments{"--seed", "3"}).exit_code, 0);
  EXPECT_EQ(digest_of(dir() / "seed-3"), digest_of(scratch_ / "quiet"));
}

// As many trainers as tasks, and each worker sees all GPUs of its node.
TEST_F(SlurmExamples, TaskPerGpu) {
  begin_example("task-per-gpu.sh", {});
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 4U);
  for (const pid_t pid : parts_of(dir(), "trainer")) {
    std::ifstream environment(str("/proc/", pid, "/environ"));
    for (std::string entry; std::getline(environment, entry, '\0');) {
      if (entry.starts_with("SLURM_GPUS_ON_NODE")) {
        EXPECT_EQ(entry, "SLURM_GPUS_ON_NODE=2");
      }
    }
  }
  stop_and_compare();
}

// ---- rekindle submit ----

TEST_F(Slurm, Submitted_TheScriptIsKeptAndRunsAgain) {
  Arguments arguments = mnist_run(dir(), 1, 1000000);
  arguments[0] = "submit";
  arguments.erase(arguments.begin() + 3, arguments.begin() + 5);  // --workers
  const Arguments options{"--", "--nodes", "2", "--exclusive", "--time=10", "--output=" + (scratch_ / "new/out").string()};
  const Outcome printed = run(arguments + Arguments{"--print"} + options);
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_NE(printed.out.find("#SBATCH --signal=B:USR1@30\n"), std::string::npos) << printed.out;
  EXPECT_EQ(cluster_->command({"squeue", "--noheader"}), "");
  const Outcome submitted = run(arguments + options);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(submitted.out.starts_with("job ")) << submitted.out;
  job_ = submitted.out.substr(4, submitted.out.find(':') - 4);
  wait_for_step(5);
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 2U);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  const std::uint64_t before = reached_step(dir());
  job_ = cluster_->submit({}, dir() / "job.sh");
  wait_for_step(before + 5);
  stop_and_compare();
}

TEST_F(Slurm, SubmittedWithFaults_EachHasItsLine) {
  Arguments arguments = mnist_run(dir(), 1, 100);
  arguments[0] = "submit";
  arguments.erase(arguments.begin() + 3, arguments.begin() + 5);
  const Outcome warned = run(arguments + Arguments{"--", "--no-requeue", "--signal=USR1@10", "--hold"});
  EXPECT_EQ(warned.exit_code, 0) << warned.err;
  for (const char* words : {"--no-requeue", "not to the batch script"})
    EXPECT_NE(warned.out.find(words), std::string::npos) << warned.out;
  const Outcome refused = run(arguments + Arguments{"--", "--partition=nosuch"});
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_NE(refused.err.find("sbatch refuses the job"), std::string::npos) << refused.err;
}

// Nobody asked it to end, and it saves nothing new: that must not go on all night.
TEST_F(Slurm, ThreeAttemptsThatEndByThemselves_GivenUp) {
  job_ = cluster_->submit({"--nodes=1"}, script({"--min-trainers", "2", "--gather-time", "3s"}));
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 2U);
  EXPECT_EQ(cluster_->state(job_), "FAILED");
  EXPECT_TRUE(printed("3 attempts in a row ended by themselves at step 0"));
  ASSERT_EQ(attempts("slurm-end").size(), 3U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "own fault");
  EXPECT_EQ(attempts("slurm-begin")[2]["why"], "requeued after own fault");
}

// The next attempt is another job: nothing of the old one may be in its way.
TEST_F(Slurm, BatchScriptKilled_TheNextJobGoesOnFromTheLastCommit) {
  begin({"--nodes=2"}, {"--checkpoint-every", "10"});
  wait_for_steps(20);
  for (const pid_t pid : parts_of(dir(), "supervisor")) ::kill(pid, SIGKILL);
  wait_until_over();
  const std::string first = job_;
  const std::uint64_t before = reached_step(dir());
  job_ = cluster_->submit({"--nodes=2"}, script({"--checkpoint-every", "10"}));
  wait_for_step(before + 20);
  EXPECT_GE(attempts("slurm-begin").back()["step"].get<std::uint64_t>() + 20, before);
  stop_and_compare();
}

// ---- a Slurm that does not answer ----

// Before the batch script's rekindle, something else called scontrol.
std::string with_scontrol(const fs::path& bin, const std::string& body) {
  fs::create_directories(bin);
  std::ofstream(bin / "scontrol") << "#!/bin/bash\n" << body << "\nexec /usr/bin/scontrol \"$@\"\n";
  fs::permissions(bin / "scontrol", fs::perms::owner_all);
  return str("export PATH=", bin.string(), ":$PATH");
}

struct Trouble {
  const char* name;
  const char* body;
  bool requeued;
};
void PrintTo(const Trouble& trouble, std::ostream* out) { *out << trouble.name; }
class SlurmTrouble : public SlurmRun, public ::testing::WithParamInterface<Trouble> {};
INSTANTIATE_TEST_SUITE_P(
    Commands, SlurmTrouble,
    ::testing::Values(
        Trouble{"Slow", R"([[ $1 == requeue ]] && sleep 10)", true},
        Trouble{"AcceptsAndTimesOut",
                R"([[ $1 == requeue ]] && { /usr/bin/scontrol "$@"; trap '' TERM; sleep 60; exit 1; })",
                true},
        Trouble{"AcceptsAndFails",
                R"([[ $1 == requeue ]] && { /usr/bin/scontrol "$@"; echo lost >&2; exit 1; })", true},
        Trouble{
            "FailsAtFirst",
            R"([[ $1 == requeue && $(echo >>$0.calls; wc -l <$0.calls) -lt 3 ]] && { echo busy >&2; exit 1; })",
            true},
        Trouble{"AlwaysFails", R"([[ $1 == requeue ]] && { echo busy >&2; exit 1; })", false},
        Trouble{"Rubbish", R"([[ $2 == job ]] && { head -c 1000 /dev/urandom; exit 0; })", false},
        Trouble{"Gone", R"([[ $2 == job || $1 == requeue ]] && exit 127)", false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SlurmTrouble, SavedAndRequeuedOnceOrNotAtAll) {
  begin({"--nodes=1"}, {"--requeue-within", "20s"}, with_scontrol(scratch_ / "bin", GetParam().body));
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  if (GetParam().requeued) {
    wait_for_restart(1);
    EXPECT_GE(attempts("slurm-begin").back()["step"], before);
    stop_and_compare();
    EXPECT_EQ(cluster_->restarts(job_), 1U);
  } else {
    wait_until_over();
    EXPECT_EQ(cluster_->restarts(job_), 0U);
    EXPECT_TRUE(printed("is not requeued"));
    finish_and_compare();
  }
}

// ---- preemption that gives time ----

TEST_F(Slurm, PreemptedWithGrace_SavedBeforeTheGraceIsOver) {
  begin({"--nodes=2", "--partition=low", "--nodelist=n[1-2]"});
  cluster_->take("n[1-2]");
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "preemption");
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

class SlurmUserSignal : public SlurmRun {
  std::string conf() const override { return "SlurmctldParameters=preempt_send_user_signal"; }
};
TEST_F(SlurmUserSignal, PreemptedWithGrace_SavedAtTheSignal) {
  begin({"--nodes=2", "--partition=low", "--nodelist=n[1-2]"});
  cluster_->take("n[1-2]");
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "preemption");
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// ---- an attempt that does not know that it is over ----

// The node's daemons die, its processes live on and train: Slurm takes the node for dead and starts the job
// elsewhere.
TEST_F(Slurm, OldAttemptCutOffButAlive_DoesNoHarm) {
  begin({"--nodes=1"}, {"--checkpoint-every", "10"});
  const auto old = parts_of(dir(), "supervisor");
  ASSERT_EQ(old.size(), 1U);
  const auto batch = static_cast<pid_t>(stat_field(old[0], 4));
  for (const pid_t pid : cluster_->daemons_on(attempts("slurm-begin")[0].value("node", ""))) {
    // The step's daemon stays: without it the worker would leave.
    if (pid == batch || command_line(pid).starts_with("slurmd")) ::kill(pid, SIGKILL);
  }
  wait_for_steps(20);
  ASSERT_EQ(::kill(old[0], 0), 0);
  wait_for_restart(1);
  EXPECT_TRUE(eventually([&] { return ::kill(old[0], 0) != 0; }));
  wait_for_steps(20);
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  EXPECT_EQ(attempts("slurm-begin")[1]["why"],
            "requeued by Slurm: the attempt before was killed, or its node failed");
  stop_and_compare();
}

// ---- helpers that come and go ----

// One base node, and two preemptible jobs that help it: the more there are, the fewer leaves each has.
TEST_F(Slurm, FillersComeAndArePreemptedAndComeBack_SameBits) {
  begin({"--nodes=1", "--nodelist=n1"});
  const fs::path filler = scratch_ / "filler.sh";
  std::ofstream(filler) << "#!/bin/bash\n#SBATCH --partition=low-now --nodes=1 --exclusive --requeue --open-mode=append\n"
                        << "#SBATCH --signal=B:USR1@30 --output=" << (scratch_ / "out-%j").string() << "\nexec " << rekindle()
                        << " join " << dir().string() << "\n";
  const std::string first = cluster_->submit({"--nodelist=n2"}, filler);
  const std::string second = cluster_->submit({"--nodelist=n3"}, filler);
  const auto trainers = [&] {
    const auto lines = run::read_lines(run::Layout(dir()).metrics());
    return lines.empty() ? 0 : lines.back().value("trainers", 0);
  };
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  cluster_->take("n[2-3]");
  ASSERT_TRUE(eventually([&] { return trainers() == 1; }));
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  EXPECT_EQ(cluster_->restarts(first), 1U);
  // Its time is over: it asks for its own return.
  cluster_->command({"scancel", "--signal=USR1", "--batch", second});
  ASSERT_TRUE(eventually([&] { return trainers() == 2; }));
  ASSERT_TRUE(eventually([&] { return trainers() == 3; }));
  EXPECT_EQ(cluster_->restarts(second), 2U);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  stop_and_compare();
  EXPECT_TRUE(eventually([&] { return cluster_->state(first) == "COMPLETED"; }));
}

// ---- arrays ----

TEST_F(Slurm, EachArrayTaskRequeuesOnlyItself) {
  const fs::path root = scratch_ / "seed-%a";
  Arguments arguments = mnist_run(root, 1, 1000000);
  const fs::path path = scratch_ / "array.sh";
  std::ofstream out(path);
  out << "#!/bin/bash\n#SBATCH --requeue --open-mode=append --signal=B:USR1@30 --exclusive --nodes=1 "
         "--array=0-1\n"
      << "#SBATCH --output=" << (scratch_ / "out-%a").string() << "\nexec " << rekindle()
      << " slurm --seed $SLURM_ARRAY_TASK_ID";
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (i < 3 || i > 4) out << " '" << arguments[i] << "'";
  }
  out << "\n";
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

}  // namespace
}  // namespace rekindle::process_test
