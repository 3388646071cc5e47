// Batch scripts that do not exec rekindle: SIGUSR1 goes to their shell and kills it.
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

class SlurmShell : public SlurmRun {
 protected:
  // The script of begin(), without exec and with `more` after the command.
  void begin_without_exec(const std::string& more) {
    const fs::path path = script();
    std::string text = *read_text(path);
    text.replace(text.find("\nexec "), 6, "\n");
    text.insert(text.size() - 1, more);
    std::ofstream(path) << text;
    job_ = cluster_->submit({"--nodes=1"}, path);
    wait_for_step(5);
    EXPECT_TRUE(printed("warning: the batch script did not exec rekindle")) << output();
  }

  void signal_and_compare() {
    const std::uint64_t before = reached_step(dir());
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
    wait_for_restart(1);
    EXPECT_FALSE(printed("was cancelled")) << output();
    EXPECT_TRUE(printed("requeued (SIGUSR1 ended the batch script's shell): the next attempt goes on"));
    EXPECT_EQ(attempts("slurm-end").front()["cause"], "SIGUSR1 ended the batch script's shell");
    EXPECT_GE(attempts("slurm-begin").back()["step"], before);
  }
};

// A later cancellation counts as a cancellation, although Slurm's facts about the batch script are equal.
TEST_F(SlurmShell, WithoutExec_SavedAndRequeuedAtUsr1AndNotWhenCancelled) {
  begin_without_exec("");
  signal_and_compare();
  cluster_->command({"scancel", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  EXPECT_EQ(attempts("slurm-end").back()["cause"], "cancelled");
  finish_and_compare();
}

TEST_F(SlurmShell, PipedIntoTee_SavedAndRequeuedAtUsr1) {
  begin_without_exec(" | tee " + (scratch_ / "copy").string());
  signal_and_compare();
  stop_and_compare();
}

// The form that the warning recommends instead of a pipe.
TEST_F(SlurmShell, ExecWithASubstitution_NotWarned) {
  const fs::path path = script();
  std::string text = *read_text(path);
  text.insert(text.size() - 1, " > >(tee " + (scratch_ / "copy").string() + ")");
  std::ofstream(path) << text;
  job_ = cluster_->submit({"--nodes=1"}, path);
  wait_for_step(5);
  EXPECT_FALSE(printed("warning")) << output();
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "asked to stop");
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
