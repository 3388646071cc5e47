// rekindle selftest: what a person sees where all is well, and where something is missing.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/copy_file.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

TEST(Selftest, OnThisMachine_EveryCheckPasses) {
  const Scratch scratch;
  const fs::path runs = scratch / "runs";
  const Outcome outcome = run({"selftest", "--workers", "2", "--device", "cpu", "--keep", runs});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* check :
       {"the package is complete", "one trainer,", "2 trainers, shared memory,", "2 trainers, TCP,",
        "a trainer is killed", "a trainer joins,", "stopped, and resumed"})
    EXPECT_EQ(times_in(outcome.out, std::string("\nok      ") + check) +
                  (outcome.out.starts_with(std::string("ok      ") + check) ? 1 : 0),
              2U)
        << check << ": as it passes, and in the report\n"
        << outcome.out;
  EXPECT_EQ(times_in(outcome.out, "every check has passed"), 1U) << outcome.out;
  // The checks did what they say.
  const auto log_of = [&](const char* name) {
    return read_text(runs / (std::string(name) + ".log")).value_or("");
  };
  EXPECT_NE(log_of("kill").find("killed by signal 9"), std::string::npos) << log_of("kill");
  EXPECT_NE(log_of("join").find("with 2 trainers, 1 of them new"), std::string::npos) << log_of("join");
  EXPECT_NE(log_of("stop").find("the state is saved"), std::string::npos) << log_of("stop");
  // The report is to be pasted.
  const std::string report = outcome.out.substr(outcome.out.find("---- report"));
  char host[256] = "";
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(report.find(host), std::string::npos) << report;
  EXPECT_EQ(report.find(scratch.path().string()), std::string::npos) << report;

  const Outcome again = run({"selftest", "--keep", runs});
  EXPECT_EQ(again.exit_code, 64);
  EXPECT_EQ(times_in(again.err, "is not empty"), 1U) << again.err;
}

// On the twin of a GPU: the way between GPUs is tried, too, and what nvidia-smi says is shown.
TEST(Selftest, OnGpus_TheyAreShown_AndTheWayOfTheGradients) {
  const Scratch scratch;
  fs::create_directories(scratch / "bin");
  std::ofstream(scratch / "bin/nvidia-smi") << "#!/bin/sh\necho 0, A GPU, 80 GiB, 580.1, Disabled\n";
  fs::permissions(scratch / "bin/nvidia-smi", fs::perms::owner_all);
  const char* const path = std::getenv("PATH");
  Program program({"/usr/bin/env", str("PATH=", (scratch / "bin").string(), ":", path == nullptr ? "" : path),
                   str("TMPDIR=", scratch.path().string()),
                   str("REKINDLE_NCCL_LIBRARY=", REKINDLE_NCCL_STAND_IN), rekindle(), "selftest", "--workers",
                   "2", "--device", "twin"});
  ASSERT_TRUE(eventually([&] {
    return program.printed().find("2 trainers, between GPUs") != std::string::npos || !program.running();
  }));
  program.signal(SIGTERM);  // the other checks are those of a CPU
  const Outcome outcome = program.wait();
  for (const char* line :
       {"\nok      2 trainers, between GPUs,", "gradients go from GPU to GPU by NCCL 2.28.9\n",
        "0, A GPU, 80 GiB, 580.1, Disabled\n"})
    EXPECT_GE(times_in(outcome.out, line), 1U) << line << outcome.out << outcome.err;
}

TEST(Selftest, ProgramsAreMissing_OneCheckFailsByName) {
  const Scratch scratch;
  fs::create_directories(scratch / "bin");
  ASSERT_TRUE(copy_file(rekindle(), scratch / "bin/rekindle", S_IRWXU));
  const Outcome outcome =
      Program({"/usr/bin/env", "TMPDIR=" + scratch.path().string(), scratch / "bin/rekindle", "selftest"})
          .wait();
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "FAILED  the package is complete"), 2U) << outcome.out;
  EXPECT_EQ(times_in(outcome.err, "neither rekindle-trainer nor the Python package is there"), 1U)
      << outcome.err;
}

TEST(Selftest, IsEndedBySigterm_NothingIsLeft) {
  const Scratch scratch;
  Program program(
      {"/usr/bin/env", "TMPDIR=" + scratch.path().string(), rekindle(), "selftest", "--device", "cpu"});
  ASSERT_TRUE(
      eventually([&] { return program.printed().find("TCP") != std::string::npos || !program.running(); }));
  const fs::path folder = fs::directory_iterator(scratch.path())->path();
  ASSERT_TRUE(eventually([&] { return !processes_with(folder / "kill").empty() || !program.running(); }));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 75);
  EXPECT_TRUE(eventually([&] { return processes_with(scratch.path().string()).empty(); }));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace rekindle::process_test
