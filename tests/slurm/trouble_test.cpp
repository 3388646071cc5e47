// If Slurm does not answer, the state is saved, and the job is requeued once or not at all.
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

// The commands before the batch script's rekindle put another program of this name on PATH.
std::string with_program(const fs::path& bin, const std::string& name, const std::string& body) {
  fs::create_directories(bin);
  std::ofstream(bin / name) << "#!/bin/bash\n" << body << "\nexec /usr/bin/" << name << " \"$@\"\n";
  fs::permissions(bin / name, fs::perms::owner_all);
  return str("export PATH=", bin.string(), ":$PATH");
}
std::string with_scontrol(const fs::path& bin, const std::string& body) {
  return with_program(bin, "scontrol", body);
}

struct Trouble {
  const char* name;
  const char* body;
  bool requeued;
};
using Slurm = SlurmRun;

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

// Two nodes report the signal, and Slurm needs ten seconds for each answer.
TEST_F(Slurm, PreemptedWithGraceAndASlowSlurm_Requeued) {
  begin({"--nodes=2", "--partition=low", "--nodelist=n[1-2]"}, {},
        with_scontrol(scratch_ / "bin", "[[ -e $0.slow ]] && sleep 10"));
  std::ofstream(scratch_ / "bin" / "scontrol.slow") << "yes";
  cluster_->take("n[1-2]");
  // The restart comes from the job itself, or from Slurm at the end of GraceTime.
  wait_for_restart(1);
  fs::remove(scratch_ / "bin" / "scontrol.slow");
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

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
    ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 75));
    EXPECT_TRUE(printed("is not requeued"));
    finish_and_compare();
  }
}

// ---- squeue, which --on-limit resubmit asks whether the job has a successor already ----

class SlurmQueueTrouble : public SlurmRun, public ::testing::WithParamInterface<Trouble> {};
INSTANTIATE_TEST_SUITE_P(
    Commands, SlurmQueueTrouble,
    ::testing::Values(Trouble{"Slow", "sleep 10", true},
                      Trouble{"FailsAtFirst",
                              "[[ $(echo >>$0.calls; wc -l <$0.calls) -lt 3 ]] && { echo busy >&2; exit 1; }",
                              true},
                      Trouble{"AlwaysFails", "echo busy >&2; exit 1", false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SlurmQueueTrouble, SavedAndFollowedByOneJobOrByNone) {
  begin({"--nodes=1"}, {"--on-limit", "resubmit", "--requeue-within", "40s"},
        with_program(scratch_ / "bin", "squeue", GetParam().body));
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 75));
  if (GetParam().requeued) {
    ASSERT_TRUE(eventually([&] { return attempts("slurm-begin").size() == 2; })) << output();
    const auto next = attempts("slurm-begin").back();
    EXPECT_EQ(next["why"], "resubmitted after asked to stop");
    EXPECT_GE(next["step"], before);
    wait_for_steps(3);
    EXPECT_EQ(cluster_->command({"squeue", "--noheader", "--format=%A"}), next.value("job", "") + "\n");
    job_ = next.value("job", "");
    stop_and_compare();
  } else {
    wait_until_over();
    EXPECT_TRUE(printed("is not submitted again: ")) << output();
    EXPECT_TRUE(printed("busy: submit it again to go on")) << output();
    EXPECT_EQ(cluster_->command({"squeue", "--noheader"}), "") << "no job may follow";
    finish_and_compare();
  }
}

}  // namespace
}  // namespace rekindle::process_test
