// How jobs end: the exit code, the state that Slurm reports, and the line in the job's output
// (docs/slurm.md).
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>

#include "../needs.hpp"
#include "../small_disk.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

class SlurmEnds : public SlurmRun {
 protected:
  // A job of one node with a separate run directory and output file, both named after the job.
  std::string submit(const std::string& name, const Arguments& more, const fs::path& run_dir,
                     const std::string& launcher = "") {
    const fs::path path = scratch_ / (name + ".sh");
    std::ofstream out(path);
    out << "#!/bin/bash\n#SBATCH --exclusive --nodes=1 --requeue --open-mode=append --signal=B:USR1@30\n"
        << "#SBATCH --output=" << (scratch_ / (name + ".out")).string() << "\nexec " << launcher
        << rekindle();
    for (const std::string& argument : mnist_job("slurm", run_dir) + more) out << " '" << argument << "'";
    out << "\n";
    out.close();
    return cluster_->submit({}, path);
  }
  std::string submit(const std::string& name, const Arguments& more = {}) {
    return submit(name, more, scratch_ / name);
  }

  std::string said(const std::string& name) const {
    return read_text(scratch_ / (name + ".out")).value_or("");
  }

  // Waits until the job is over and will not run again.
  void expect_end(const std::string& name, const std::string& job, const std::string& state, int exit_code,
                  const std::string& words) {
    SCOPED_TRACE(str(name, ": ", said(name)));
    ASSERT_NO_FATAL_FAILURE(expect_over(job, state, exit_code));
    EXPECT_NE(said(name).find(words), std::string::npos) << name << ": " << said(name);
  }
};

// One job for each kind of end. As many jobs run at once as there are nodes.
TEST_F(SlurmEnds, OfFirstAttempts_ExitCodeStateAndLine) {
  const fs::path complete = scratch_ / "complete";
  const std::string finished = submit("finished", {"--steps", "4"}, complete);
  const std::string no_option = submit("no-option", {"--no-such-option"});
  const std::string no_data = submit("no-data", {"--data", scratch_ / "nowhere"});
  const std::string diverges = submit("diverges", {"--lr", "1e30"});
  std::ofstream(scratch_ / "file") << "x";
  const std::string file = submit("file-as-run-dir", {}, scratch_ / "file");
  const std::string no_programs = submit("no-programs", {}, scratch_ / "no-programs", "env PATH=/nowhere ");
  expect_end("no-programs", no_programs, "FAILED", 78, "scontrol and srun are not on PATH (/nowhere)");
  expect_end("file-as-run-dir", file, "FAILED", 78, "is a file, not a directory");
  expect_end("no-option", no_option, "FAILED", 64, "unknown option");
  expect_end("no-data", no_data, "FAILED", 78, "nowhere");
  expect_end("diverges", diverges, "FAILED", 70, "not finite");
  EXPECT_EQ(attempts("slurm-end", scratch_ / "diverges").back()["cause"], "gave up");
  expect_end("finished", finished, "COMPLETED", 0, "finished: 4 steps");
  const std::string again = submit("again", {"--steps", "4"}, complete);
  expect_end("again", again, "COMPLETED", 0, "the run is complete: 4 steps");
}

TEST_F(SlurmEnds, ByPeople_ExitCodeStateAndLine) {
  Arguments names{"term", "int", "stop", "cancel"};
  std::map<std::string, std::string> jobs;
  for (const std::string& name : names) jobs[name] = submit(name);
  for (const std::string& name : names) {
    ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / name) >= 3; })) << said(name);
  }
  cluster_->command({"scancel", "--signal=TERM", "--batch", jobs["term"]});
  cluster_->command({"scancel", "--signal=INT", "--batch", jobs["int"]});
  EXPECT_EQ(run({"stop", scratch_ / "stop"}).exit_code, 0);
  cluster_->command({"scancel", jobs["cancel"]});
  expect_end("term", jobs["term"], "FAILED", 75, "submit the job again to go on");
  expect_end("int", jobs["int"], "FAILED", 130, "submit the job again to go on");
  expect_end("stop", jobs["stop"], "FAILED", 75, "submit the job again to go on");
  expect_end("cancel", jobs["cancel"], "CANCELLED", 75, "was cancelled and is not requeued");
  jobs["hup"] = submit("hup");  // There are four nodes.
  names.push_back("hup");
  ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / "hup") >= 3; })) << said("hup");
  cluster_->command({"scancel", "--signal=HUP", "--batch", jobs["hup"]});
  expect_end("hup", jobs["hup"], "FAILED", 75, "submit the job again to go on");
  for (const std::string& name : names) {
    EXPECT_EQ(cluster_->restarts(jobs[name]), 0U) << name;
    EXPECT_FALSE(attempts("slurm-end", scratch_ / name).back().value("requeued", false)) << name;
    EXPECT_NE(said(name).find("the state is saved\n"), std::string::npos) << said(name);
    EXPECT_EQ(said(name).find("run the same command"), std::string::npos) << said(name);
  }
}

TEST_F(SlurmEnds, WithoutARequeue_ExitCodeStateAndLine) {
  const std::string leaves = submit("exit", {"--on-limit", "exit"});
  const std::string follows = submit("resubmit", {"--on-limit", "resubmit"});
  for (const char* name : {"exit", "resubmit"})
    ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / name) >= 3; })) << said(name);
  for (const std::string& job : {leaves, follows})
    cluster_->command({"scancel", "--signal=USR1", "--batch", job});
  expect_end("exit", leaves, "FAILED", 75, "not requeued (--on-limit exit): submit it again to go on");
  expect_end("resubmit", follows, "FAILED", 75, "resubmitted as job ");
  EXPECT_EQ(cluster_->restarts(leaves) + cluster_->restarts(follows), 0U);
  cluster_->command({"scancel", "--me"});
  ASSERT_TRUE(eventually([&] { return processes_with(scratch_.path()).empty(); }));
}

// A step is long enough that all trainers of a generation crash in the same step.
TEST_F(SlurmEnds, TrainersThatCrashAtOneStep_GivenUpAndNotRequeued) {
  job_ = submit("out",
                {"--model", "vgg11", "--data", cifar_data(), "--image-size", "64", "--batch-size", "4",
                 "--micro-batches", "4"},
                dir());
  const auto log = [&] { return read_text(run::Layout(dir()).log("coordinator")).value_or(""); };
  const auto over = [&] { return cluster_->state(job_) == "FAILED"; };
  for (int generation = 1; generation <= 8 && !over(); ++generation) {
    const std::string formed = str("generation t1.g", generation, " ");
    if (!eventually([&] { return log().find(formed) != std::string::npos || over(); })) break;
    for (const pid_t pid : parts_of(dir(), "trainer")) ::kill(pid, SIGSEGV);
  }
  expect_end("out", job_, "FAILED", 70, "again and again at step");
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  EXPECT_EQ(attempts("slurm-end").back()["cause"], "gave up");
}

// All the run's progress is in memory and cannot be written. There is room to record the attempt.
TEST_F(SlurmEnds, FullDiskAtTheLastStep_AnotherAttemptFinishes) {
  const SmallDisk small(scratch_ / "small", kRoomForTheProgramsMib);
  if (!small.mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount a tmpfs");
  run_dir_ = small.path() / "run";
  job_ = submit("out", {"--steps", "60", "--checkpoint-every", "5"}, dir());
  ASSERT_TRUE(eventually([&] { return said("out").find("is committed") != std::string::npos; }));
  constexpr std::uintmax_t kRoom = std::uintmax_t{1} << 20;  // a checkpoint has 15 MB
  small.fill(kRoom);
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; }, std::chrono::minutes(5)))
      << said("out");
  EXPECT_NE(said("out").find("the state of step 60 could not be written"), std::string::npos) << said("out");
  small.empty();
  expect_end("out", job_, "COMPLETED", 0, "finished: 60 steps");
  EXPECT_NE(said("out").find("requeued (the attempt failed)"), std::string::npos) << said("out");
  EXPECT_EQ(digest_of(dir()), quiet_digest(60));
}

// The second job's node either sees the first job's process, or is another host and does not. The second
// attempt must also be refused: the first run's progress must not count as progress of the second job.
TEST_F(SlurmEnds, SecondJobOfALiveRun_RefusedAndNothingIsWrittenIntoItsRecords) {
  begin({"--nodes=1"}, {"--checkpoint-every", "5"});
  wait_until_printed("is committed");
  const std::string before = *read_text(run::Layout(dir()).attempts());
  const std::string held = str("is held by a live run (Slurm job ", job_);
  const std::string here = submit("here", {}, dir());
  const std::string elsewhere =
      submit("elsewhere", {}, dir(), "unshare --uts /bin/sh -c 'hostname elsewhere && exec \"$@\"' sh ");
  expect_end("here", here, "FAILED", 78, held);
  EXPECT_EQ(cluster_->restarts(here), 0U);
  cluster_->command({"scontrol", "requeue", here});
  ASSERT_TRUE(eventually([&] { return times_in(said("here"), held) == 2; })) << said("here");
  expect_end("elsewhere", elsewhere, "FAILED", 78, held);
  expect_end("here", here, "FAILED", 78, held);
  EXPECT_EQ(cluster_->restarts(here), 1U);
  EXPECT_EQ(cluster_->restarts(elsewhere), 0U);
  EXPECT_EQ(*read_text(run::Layout(dir()).attempts()), before);
  EXPECT_FALSE(path_exists(run::Layout(dir()).requeue()));
  wait_for_steps(3);
  stop_and_compare();
}

// The data are missing from the second attempt on, and do not come back.
TEST_F(SlurmEnds, FifthAttemptThatCannotBegin_GivenUp) {
  const fs::path link = scratch_ / "data";
  fs::create_directory_symlink(mnist_data(), link);
  job_ = submit("out", {"--data", link}, dir());
  wait_for_step(5);
  fs::remove(link);
  cluster_->command({"scontrol", "requeue", job_});
  for (const long minutes : {10, 30, 60}) {
    const long pause = start_now();
    EXPECT_GT(pause, 60 * (minutes - 5));
    EXPECT_LE(pause, 60 * minutes);
    EXPECT_NE(said("out").find(str(", in ", minutes, " minutes at the earliest")), std::string::npos)
        << said("out");
  }
  expect_end("out", job_, "FAILED", 70, "5 attempts in a row saved nothing beyond step");
  EXPECT_EQ(cluster_->restarts(job_), 5U);
  finish_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
