// A night of a run, shortened: it is requeued five times, in different ways, and all that watches goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "python.hpp"

namespace rekindle::process_test {
namespace {

class SlurmNight : public SlurmRun {
 protected:
  void SetUp() override {
    Program program({"/usr/bin/env", oracle_python(), "-c", "import tensorboard"});
    if (program.wait().exit_code != 0 || ::access("/usr/bin/prometheus", X_OK) != 0)
      REKINDLE_SKIP(Needs::kPython,
                    "needs prometheus, and a python3 with tensorboard (REKINDLE_ORACLE_PYTHON names it)");
    run_dir_ = scratch_ / "runs/run";
    fs::create_directories(run_dir_.parent_path());
    SlurmRun::SetUp();
  }
  void requeue_by(const Arguments& command) {
    const std::uint64_t before = cluster_->restarts(job_);
    cluster_->command(command);
    wait_for_restart(before + 1);
    wait_for_steps(5);
  }
};

TEST_F(SlurmNight, OfFiveRequeues_IsSeenWithoutAGap) {
  fs::create_directories(scratch_ / "watch");
  // It reads until this shell's input ends: the file is made when the run is over.
  const fs::path over = scratch_ / "over";
  Program watch(
      {"/bin/sh", "-c",
       str("while ! [ -e ", over.string(), " ]; do sleep 0.2; done | PYTHONDONTWRITEBYTECODE=1 ",
           oracle_python(), " ", REKINDLE_SOURCE, "/tests/slurm/night_watch.py ", rekindle(), " ",
           REKINDLE_SOURCE, " ", run_dir_.parent_path().string(), " ", (scratch_ / "watch").string())});
  ASSERT_TRUE(
      eventually([&] { return watch.printed().find("watching") != std::string::npos || !watch.running(); }));
  begin({"--nodes=2", "--time=30"}, {"--tensorboard", "--checkpoint-interval", "2s"});
  requeue_by({"scancel", "--signal=USR1", "--batch", job_});
  requeue_by({"scontrol", "requeue", job_});  // without a notice of 30 s
  const auto trainers = parts_of(dir(), "trainer");
  ASSERT_FALSE(trainers.empty());
  ::kill(trainers.front(), SIGKILL);  // a recovery
  wait_for_steps(5);
  requeue_by({"scancel", "--signal=USR1", "--batch", job_});
  requeue_by({"scancel", "--signal=KILL", "--batch", job_});  // the batch script alone
  requeue_by({"scancel", "--signal=USR1", "--batch", job_});
  stop_and_compare();
  ASSERT_TRUE(replace_file(FilePath(over), ""));
  const Outcome outcome = watch.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  std::printf("%s", outcome.out.c_str());
}

}  // namespace
}  // namespace rekindle::process_test
