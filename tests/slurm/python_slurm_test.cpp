// A job whose model is in Python (docs/python.md): submitted, ended by its time limit, requeued, without one
// of its nodes, stopped, finished. The script imports a module that lies beside it, and is not copied.
#include <csignal>
#include <fstream>

#include "../needs.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "python.hpp"

namespace rekindle::process_test {
namespace {

class SlurmPython : public SlurmRun {
 protected:
  void SetUp() override {
    python_ = python_with_torch();
    if (python_.empty()) REKINDLE_SKIP(Needs::kPython, kNoTorch);
    SlurmRun::SetUp();
    std::ofstream(scratch_ / "beside.py")
        << "text = open('" << everything_script(REKINDLE_SOURCE) << "').read()\n";
    write_script();
  }
  // Under `submit` and `local`, run() does not return.
  void TearDown() override {
    EXPECT_FALSE(printed("after run()")) << output();
    SlurmRun::TearDown();
  }
  void write_script() const { std::ofstream(script_) << "import beside\nexec(beside.text)\n"; }
  Arguments job(const std::string& command, const fs::path& run_dir, int steps) const {
    return {command, "--run-dir", run_dir, "--python", python_, script_, str("steps=", steps), "workers=2"};
  }
  void submit(const Arguments& sbatch, int steps) {
    const Outcome submitted = run(job("submit", dir(), steps) +
                                  Arguments{"--", "--output=" + (scratch_ / "out").string()} + sbatch);
    ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
    const std::string words = "job ";
    ASSERT_TRUE(submitted.out.starts_with(words)) << submitted.out;
    job_ = submitted.out.substr(words.size(), submitted.out.find(':') - words.size());
  }
  // A job that goes on until the test stops it.
  void begin_job(const Arguments& sbatch) {
    ASSERT_NO_FATAL_FAILURE(submit(sbatch, 1000000));
    wait_for_step(5);
  }
  Outcome train(const fs::path& where, int steps) const override {
    Outcome trained = run(job("local", where, steps));
    EXPECT_EQ(times_in(trained.out + trained.err, "after run()"), 0U) << trained.out << trained.err;
    return trained;
  }
  std::string expected_digest(int steps) const override {
    EXPECT_EQ(train(scratch_ / "straight", steps).exit_code, 0);
    return digest_of(scratch_ / "straight");
  }
  const fs::path script_ = scratch_ / "train.py";
  std::string python_;
};

TEST_F(SlurmPython, RequeuedOnTwoNodes_EachAttemptRunsTheKeptScriptAndTheLastFinishes) {
  ASSERT_NO_FATAL_FAILURE(begin_job({"--nodes=2"}));
  EXPECT_TRUE(fs::exists(dir() / "bin" / "script" / "train.py"));
  EXPECT_FALSE(fs::exists(dir() / "bin" / "script" / "beside.py"));
  std::ofstream(script_, std::ios::app) << "raise SystemExit('the original is not what runs')\n";
  cluster_->command({"scontrol", "requeue", job_});
  wait_for_restart(1);
  EXPECT_TRUE(printed("has changed since this run began")) << output();
  write_script();
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();

  const int steps = common_steps_after(reached_step(dir()));
  ASSERT_NO_FATAL_FAILURE(submit({"--nodes=2"}, steps));
  expect_over(job_, "COMPLETED", 0);
  EXPECT_EQ(digest_of(dir()), expected_digest(steps));
}

// The signal comes 30 to 60 s before the limit: a shorter one would leave too little time for the
// interpreters.
TEST_F(SlurmPython, TimeLimit_SavedRequeuedAndSameBits) {
  ASSERT_NO_FATAL_FAILURE(begin_job({"--nodes=1", "--time=2"}));
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "time limit");
  EXPECT_EQ(attempts("slurm-begin")[1]["step"], attempts("slurm-end").front()["step"]);
  EXPECT_TRUE(printed("requeued (time limit): the next attempt goes on from step ")) << output();
  stop_and_compare();
}

TEST_F(SlurmPython, NodeIsLost_TheOthersGoOnInTheSameAttempt) {
  ASSERT_NO_FATAL_FAILURE(begin_job({"--nodes=3"}));
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 3; })) << output();
  const std::string head = attempts("slurm-begin")[0].value("node", "n1");
  const std::string lost = head == "n3" ? "n2" : "n3";
  const auto daemons = cluster_->daemons_on(lost), tasks = cluster_->tasks_on(lost);
  ASSERT_GE(daemons.size(), 2U);
  ASSERT_FALSE(tasks.empty());
  for (const auto& pids : {daemons, tasks}) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  }
  EXPECT_TRUE(eventually([&] { return trainers_now(dir()) == 2; })) << output();
  wait_for_steps(20);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  EXPECT_EQ(attempts("slurm-begin").size(), 1U);
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
