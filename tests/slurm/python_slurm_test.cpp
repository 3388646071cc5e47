// A job whose model is in Python (docs/python.md): submitted, requeued, stopped, finished.
#include <fstream>

#include "../needs.hpp"
#include "base/command.hpp"
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
    fs::copy_file(everything_script(REKINDLE_SOURCE), script_);
  }
  Arguments job(const std::string& command, const fs::path& run_dir, std::uint64_t steps) const {
    return {command, "--run-dir", run_dir, "--python", python_, script_, str("steps=", steps), "workers=2"};
  }
  const fs::path script_ = scratch_ / "train.py";
  std::string python_;
};

TEST_F(SlurmPython, RequeuedOnTwoNodes_EachAttemptRunsTheKeptScript) {
  const Outcome submitted = run(job("submit", dir(), 1000000) + Arguments{"--", "--nodes=2"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string words = "job ";
  ASSERT_TRUE(submitted.out.starts_with(words)) << submitted.out;
  job_ = submitted.out.substr(words.size(), submitted.out.find(':') - words.size());
  wait_for_step(5);
  std::ofstream(script_, std::ios::app) << "raise SystemExit('the original is not what runs')\n";
  cluster_->command({"scontrol", "requeue", job_});
  wait_for_restart(1);
  std::ifstream output(dir() / "logs" / str("slurm-", job_, ".out"));
  const std::string text(std::istreambuf_iterator<char>(output), {});
  EXPECT_NE(text.find("has changed since this run began"), std::string::npos) << text;
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  fs::copy_file(everything_script(REKINDLE_SOURCE), script_, fs::copy_options::overwrite_existing);
  const std::uint64_t steps = reached_step(dir()) + 5;
  const Outcome finished = run(job("local", dir(), steps));
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  ASSERT_EQ(run(job("local", scratch_ / "straight", steps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "straight"));
}

}  // namespace
}  // namespace rekindle::process_test
