// Stops, deaths and full or lost storage on real processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <set>

#include "../needs.hpp"
#include "../read_lines.hpp"
#include "../small_disk.hpp"
#include "base/files.hpp"
#include "faults_fixture.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

TEST_F(Faults, KilledSupervisor_NothingLeftAndTheRunGoesOnLater) {
  Program program(Arguments{rekindle()} + mnist_run(dir(), 2, 100000) + Arguments{"--checkpoint-every", "5"});
  ASSERT_NO_FATAL_FAILURE(reach(program, 12));
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  const int steps = common_steps_after(reached_step(dir()));
  EXPECT_EQ(run(mnist_run(dir(), 1, steps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), quiet_digest(steps));
}

TEST_F(Faults, StopAskedWhileAnAttemptAwaitsTheNewestCheckpoint_Stops) {
  {
    Program program(Arguments{rekindle()} + mnist_run(dir(), 2, 100000) +
                    Arguments{"--checkpoint-every", "5"});
    ASSERT_NO_FATAL_FAILURE(reach(program, 12));
    // At the same moment, so that the coordinator cannot report its end.
    program.signal(SIGSTOP);
    for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGKILL);
    program.signal(SIGKILL);
    program.wait();
    ASSERT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  }
  const std::string newest = read_text(run::Layout(dir()).newest_checkpoint()).value_or("\n");
  const fs::path checkpoint = dir() / "checkpoints" / newest.substr(0, newest.find('\n'));
  const fs::path unseen = scratch_ / "unseen", output = scratch_ / "output";
  // The coordinator may have died between the commit of a newer checkpoint and its name in `newest`.
  for (const auto& entry : fs::directory_iterator(dir() / "checkpoints")) {
    if (entry.path().filename() > checkpoint.filename()) fs::remove_all(entry.path());
  }
  fs::rename(checkpoint, unseen);
  Program program(
      Arguments{"/bin/sh", "-c", R"(output=$1; shift; exec "$0" "$@" >"$output")", rekindle(), output} +
      mnist_run(dir(), 2, 100000));
  ASSERT_TRUE(eventually([&] {
    return read_text(output).value_or("").find("waits until the storage shows") != std::string::npos;
  }));
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  fs::rename(unseen, checkpoint);
  EXPECT_EQ(program.wait().exit_code, 75);
}

TEST_F(Faults, EverythingSuspendedForLongerThanAHeartbeatMayBeLate_NobodyIsLost) {
  Program program(Arguments{rekindle()} + mnist_run(dir(), 2, 100000));
  reach(program, 5);
  const auto all = processes_with(dir());
  for (const pid_t pid : all) ::kill(pid, SIGSTOP);
  ::sleep(7);  // this is the suspension itself, not a wait for an event
  for (const pid_t pid : all) ::kill(pid, SIGCONT);
  const std::uint64_t step = reached_step(dir());
  ASSERT_TRUE(eventually([&] { return reached_step(dir()) > step + 20 || !program.running(); }));
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.err;
  EXPECT_EQ(times_in(log(), "was lost"), 0U) << log();
}

TEST_F(Faults, CoordinatorKilledBeforeItCameUp_AnotherOneBegins) {
  Program program(Arguments{rekindle()} + mnist_run(dir(), 2, 20));
  ASSERT_TRUE(eventually([&] { return !parts_of(dir(), "coordinator").empty(); }));
  for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGKILL);
  EXPECT_EQ(program.wait().exit_code, 0);
  EXPECT_EQ(reached_step(dir()), 20U);
}

// The trainers are suspended, and are not taken for lost, so that no step can finish and no state can be
// saved. A wait for either would last until the test's limit.
TEST_F(Faults, SecondInterrupt_LeavesAtOnceAndSavesNothing) {
  Program program(Arguments{rekindle()} + mnist_run(dir(), 2, 1000000) + Arguments{"--lost-after", "1h"});
  ASSERT_NO_FATAL_FAILURE(reach(program, 3));
  const std::vector<pid_t> stopped = parts_of(dir(), "trainer");
  for (const pid_t pid : stopped) ::kill(pid, SIGSTOP);
  program.signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return log().find("stopping (SIGINT)") != std::string::npos; }));
  EXPECT_TRUE(program.running());
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_NE(outcome.out.find("press Ctrl-C again to leave at once without saving\n"), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("second Ctrl-C: leaving at once; what is not saved by now is lost\n"),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(log().find("is committed"), std::string::npos) << log();
  for (const pid_t pid : stopped) ::kill(pid, SIGCONT);  // their worker is gone, so the trainers exit
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

TEST_F(Faults, StopBeforeTrainingBegins_SavedAndResumable) {
  Program program(Arguments{rekindle()} + mnist_run(dir(), 2, 1000));
  ASSERT_TRUE(eventually([&] { return fs::exists(dir() / "run.toml"); }));
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
  const int steps = common_steps_after(reached_step(dir()));
  EXPECT_EQ(run(mnist_run(dir(), 1, steps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), quiet_digest(steps));
}

TEST_F(Faults, StopDuringEvaluation_EvaluatedOnceAfterTheResume) {
  // One epoch is 62.5 steps. There are so many test images that the stop arrives during the evaluation.
  fs::copy(mnist_data(), scratch_ / "data");
  ASSERT_EQ(run({"make-data", "mnist", scratch_ / "many", "--samples", "20000"}).exit_code, 0);
  for (const char* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    fs::copy(scratch_ / "many" / name, scratch_ / "data" / name, fs::copy_options::overwrite_existing);
  const Arguments job = mnist_run(dir(), 2, 120) + Arguments{"--data", scratch_ / "data"};
  Program program(Arguments{rekindle()} + job);
  ASSERT_NO_FATAL_FAILURE(reach(program, 63));
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
  std::multiset<std::uint64_t> evaluated, steps;
  const auto read = [&] {
    for (const auto& line : run::read_lines(run::Layout(dir()).metrics()))
      (line.contains("test_loss") ? evaluated : steps).insert(line.at("step").get<std::uint64_t>());
  };
  read();
  EXPECT_EQ(steps.size(), 63U);
  EXPECT_TRUE(evaluated.empty()) << "the stop did not come during the evaluation";
  steps.clear();
  EXPECT_EQ(run(job).exit_code, 0);
  evaluated.clear();
  read();
  EXPECT_EQ(evaluated, (std::multiset<std::uint64_t>{63, 120}));
  EXPECT_EQ(steps.size(), 120U);  // every step once: lines of lost steps are rewound
  EXPECT_EQ(std::set<std::uint64_t>(steps.begin(), steps.end()).size(), 120U);
}

// Files written below the mount point are hidden when the storage is back.
TEST_F(Faults, StorageUnmountedInMidRun_NothingElseIsCalledCommitted) {
  mnist_data();
  std::optional<SmallDisk> storage;
  storage.emplace(scratch_ / "mount", 256);
  if (!storage->mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount a tmpfs");
  const fs::path run_dir = storage->path() / "run";
  Program program(Arguments{rekindle()} + mnist_run(run_dir, 2, 120) + Arguments{"--checkpoint-every", "50"});
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) >= 20 || !program.running(); }));
  ASSERT_TRUE(program.running());
  storage.reset();
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("checkpoint of step 120 is committed"), std::string::npos) << outcome.out;
  EXPECT_TRUE(fs::is_empty(scratch_ / "mount"));
}

TEST_F(Faults, CrashInMidWriteOnATightDisk_TheNextAttemptMakesRoomAndSaves) {
  constexpr int kMiB = 1 << 20;
  mnist_data();
  const SmallDisk small(scratch_ / "small", 64);
  if (!small.mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount a tmpfs");
  const fs::path run_dir = small.path() / "run";
  ASSERT_EQ(run(mnist_run(run_dir, 2, 10) + Arguments{"--keep", "1"}).exit_code, 0);
  // The remains of a writer that was killed: of a later step, so that no commit sweeps them, and so large
  // that no other checkpoint fits.
  const fs::path left = run_dir / "checkpoints/step-0000000090.t1.g1";
  fs::create_directories(left);
  const auto available = static_cast<std::size_t>(fs::space(small.path()).available);
  { std::ofstream(left / "shard-00000-of-00002.h5.tmp.1.abc") << std::string(available - 8 * kMiB, 'x'); }
  const Outcome resumed =
      run(mnist_run(run_dir, 2, 200) + Arguments{"--keep", "1", "--checkpoint-every", "50"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(Faults, FullDisk_TheRunGoesOnAndTheNextCheckpointSucceeds) {
  // No checkpoint (15 MB) fits beside the ballast file, which is removed during the run.
  mnist_data();
  constexpr std::uintmax_t kMiB = 1 << 20, kSmall = 200 * kMiB;
  std::optional<SmallDisk> made;
  if (fs::space(scratch_.path()).capacity > kSmall) made.emplace(scratch_ / "small", 64);
  if (made && !made->mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount a tmpfs");
  const fs::path small = made ? made->path() : scratch_.path(), run_dir = small / "run",
                 ballast = small / "ballast";
  { std::ofstream(ballast) << std::string(fs::space(small).available - 4 * kMiB, 'x'); }
  Program program(Arguments{rekindle()} + mnist_run(run_dir, 2, 100000) +
                  Arguments{"--checkpoint-every", "20", "--keep", "1"});
  const auto log = run_dir / "logs/coordinator.log";
  ASSERT_TRUE(eventually([&] {
    const auto text = read_text(log);
    return (text && text->find("could not be written") != std::string::npos) || !program.running();
  }));
  ASSERT_TRUE(program.running());
  fs::remove(ballast);
  ASSERT_TRUE(eventually([&] {
    return read_text(log).value_or("").find("is committed") != std::string::npos || !program.running();
  }));
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("training goes on"), std::string::npos) << outcome.out;
}

// The new coordinator cannot claim a term while the disk is full; training continues without it.
TEST_F(Faults, FullDiskAndTheCoordinatorKilled_AnotherComesUpWhenThereIsRoom) {
  const SmallDisk small(scratch_ / "small", 64);
  if (!small.mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount a tmpfs");
  const fs::path run_dir = small.path() / "run", ballast = small.path() / "ballast";
  Program program(Arguments{rekindle()} + mnist_run(run_dir, 2, 100000));
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) >= 5 || !program.running(); }));
  const auto coordinator = [&] { return parts_of(run_dir, "coordinator"); };
  const std::vector<pid_t> first = coordinator();
  ASSERT_EQ(first.size(), 1U);
  { std::ofstream(ballast) << std::string(80 << 20, 'x'); }  // fills the disk
  ::kill(first.front(), SIGKILL);
  std::set<pid_t> tried;
  ASSERT_TRUE(eventually([&] {
    for (const pid_t pid : coordinator()) tried.insert(pid);
    return tried.size() >= 5 || !program.running();
  }));
  ASSERT_TRUE(program.running()) << program.wait().err;
  fs::remove(ballast);
  const std::uint64_t then = reached_step(run_dir);
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) > then + 5 || !program.running(); }));
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("the coordinator cannot start"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace rekindle::process_test
