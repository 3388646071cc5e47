// Changes around a run while it trains: its data, its directory, the readers of its output, other commands.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class Surroundings : public LiveRun {
 protected:
  void wait_for_trainer_log(const std::string& words) {
    ASSERT_TRUE(eventually([&] { return trainer_logs().find(words) != std::string::npos; })) << words;
  }
  // The number of trainers of the run with this entry in their environment.
  int trainers_with(const std::string& entry) const {
    int count = 0;
    for (const pid_t trainer : parts_of(dir(), "trainer")) {
      std::stringstream environment;
      environment << std::ifstream(str("/proc/", trainer, "/environ")).rdbuf();
      EXPECT_NE(environment.str().find("OMP_NUM_THREADS="), std::string::npos);
      if (environment.str().find(entry + '\0') != std::string::npos) ++count;
    }
    return count;
  }
};

TEST_F(Surroundings, DataThatAreOthersForAWhile_NobodyTrainsOnThemAndAllComeBack) {
  const fs::path data = scratch_ / "data", others = scratch_ / "others", away = scratch_ / "away";
  fs::copy(mnist_data(), data, fs::copy_options::recursive);
  ASSERT_EQ(run({"make-data", "mnist", others, "--samples", "1000", "--seed", "7"}).exit_code, 0);
  Arguments job = mnist_run(dir(), 2, 1000000);
  std::replace(job.begin(), job.end(), mnist_data().string(), data.string());
  program_.emplace(Arguments{rekindle()} + job);
  ASSERT_NO_FATAL_FAILURE(wait_for_step(5));
  fs::rename(data, away);
  fs::rename(others, data);
  ::kill(parts_of(dir(), "trainer").back(), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_trainer_log("are not this run's"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(trainers_now(dir()), 1U);
  fs::rename(data, others);
  fs::rename(away, data);
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 2; }));
  stop_and_compare();
}

TEST_F(Surroundings, ReaderOfTheOutputGoesAway_TheRunGoesOn) {
  std::string line = "set -o pipefail; exec 2>&1; " + rekindle();
  for (const std::string& word : mnist_run(dir(), 1, 300)) line += " " + word;
  EXPECT_EQ(Program({"/bin/bash", "-c", line + " | head -n 1"}).wait().exit_code, 0);
  EXPECT_EQ(reached_step(dir()), 300U);
}

// The trainers of a dead worker become children of the container's first process.
TEST_F(Surroundings, FirstProcessOfAContainer_KeepsNoZombies) {
  const Arguments contained{"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  const auto able = run_command(contained + Arguments{"true"}, std::chrono::seconds(10));
  if (!able || !able->ok()) REKINDLE_SKIP(Needs::kOwnMounts, "cannot make a namespace of processes");
  ASSERT_NO_FATAL_FAILURE(begin(2, {}, contained));
  const pid_t worker = parts_of(dir(), "worker").at(0);
  const auto trainers = children_of(worker);
  ASSERT_FALSE(trainers.empty());
  const int before = times_logged("of them new");
  ::kill(worker, SIGKILL);
  const auto is_gone = [](pid_t pid) { return stat_field(pid, 22) == 0; };  // a zombie has a start time
  EXPECT_TRUE(eventually([&] { return std::all_of(trainers.begin(), trainers.end(), is_gone); }));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("of them new", before + 1));
  stop_and_compare();
}

// Other users may read a run directory: that is no reason for an error or a warning.
TEST_F(Surroundings, DirectoryMadeReadableMeanwhile_ACoordinatorThatDiesIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  ASSERT_EQ(::chmod(dir().c_str(), 0755), 0);
  ::kill(parts_of(dir(), "coordinator").front(), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("term 2 on"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  ASSERT_EQ(::chmod(dir().c_str(), 0700), 0);
  stop_and_compare();
}

// The first run cannot know whether its directory comes back: it continues to train, and saves when the
// directory is back.
TEST_F(Surroundings, DirectoryMovedAndAnotherRunInItsPlace_TheFirstTouchesNothingOfIt) {
  ASSERT_NO_FATAL_FAILURE(begin(1, {"--checkpoint-every", "50"}));
  const fs::path moved = scratch_ / "moved", second_dir = scratch_ / "second";
  fs::rename(dir(), moved);
  const Outcome second = run(mnist_run(dir(), 1, 3) + Arguments{"--lr", "0.3"});
  EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
  const std::string digest = digest_of(dir());
  EXPECT_TRUE(eventually([&] {
    return program_->printed().find("another directory is in its place") != std::string::npos;
  })) << program_->printed();
  EXPECT_EQ(digest_of(dir()), digest);
  fs::rename(dir(), second_dir);
  fs::rename(moved, dir());
  stop_and_compare();
  EXPECT_EQ(run(mnist_run(second_dir, 1, 5) + Arguments{"--lr", "0.3"}).exit_code, 0);
  EXPECT_EQ(run(mnist_run(scratch_ / "other", 1, 5) + Arguments{"--lr", "0.3"}).exit_code, 0);
  EXPECT_EQ(digest_of(second_dir), digest_of(scratch_ / "other"));
}

TEST_F(Surroundings, DirectoryCopiedMeanwhile_TheCopyIsARunOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(begin(1, {"--checkpoint-every", "5"}));
  ASSERT_NO_FATAL_FAILURE(wait_for_step(20));
  const fs::path copy = scratch_ / "copy";
  Program({"/bin/cp", "-a", dir(), copy}).wait();  // not 0 if a temporary file was gone before it was copied
  // Within 10 s of the run's last status, the copy could be another path to the run.
  fs::last_write_time(copy / "status.json", fs::file_time_type::clock::now() - std::chrono::minutes(1));
  const Outcome stop = run({"stop", copy});
  EXPECT_EQ(stop.exit_code, 78) << stop.out;
  EXPECT_NE(stop.err.find("there is no live run in"), std::string::npos) << stop.err;
  const int steps = common_steps_after(reached_step(copy));
  const Outcome finished = run(mnist_run(copy, 1, steps));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(digest_of(copy), quiet_digest(steps));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
}

// On the run's own machine, no attempt runs in the copy, and the helper would wait for one.
TEST_F(Surroundings, JoinOfACopyFromAnotherMachine_RefusedAndTheRunGoesOn) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can make namespaces");
  const Arguments elsewhere{
      "/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname elsewhere && exec \"$@\"", "sh"};
  ASSERT_NO_FATAL_FAILURE(begin(1));
  const fs::path copy = scratch_ / "copy";
  Program({"/bin/cp", "-a", dir(), copy}).wait();  // not 0 if a temporary file was gone before it was copied
  const Outcome helper = Program(elsewhere + Arguments{rekindle(), "join", copy}).wait();
  EXPECT_EQ(helper.exit_code, 78) << helper.out << helper.err;
  EXPECT_NE(helper.err.find("its run directory is not the run's own"), std::string::npos) << helper.err;
  EXPECT_NE(helper.err.find("does not accept these workers"), std::string::npos) << helper.err;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
}

// The coordinator of the run listens on 127.0.0.1, which the other host cannot reach; but the coordinator
// also writes its status.
TEST_F(Surroundings, SameRunFromAnotherHost_RefusedAndTheFirstGoesOn) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can make namespaces");
  ASSERT_NO_FATAL_FAILURE(begin(1));
  const Arguments elsewhere{
      "/usr/bin/unshare", "--uts", "--net", "/bin/sh", "-c", "hostname elsewhere && exec \"$@\"", "sh"};
  const Outcome second = Program(elsewhere + Arguments{rekindle()} + mnist_run(dir(), 1, 1000000)).wait();
  EXPECT_EQ(second.exit_code, 78) << second.out << second.err;
  EXPECT_NE(second.err.find("is held by a live run"), std::string::npos) << second.err;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
}

TEST_F(Surroundings, HelperWhoseEnvironmentWantsOtherArithmetic_SameBits) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  Program helper({"/usr/bin/env", "ATEN_CPU_CAPABILITY=default", "MKL_CBWR=COMPATIBLE",
                  "MKL_ENABLE_INSTRUCTIONS=SSE4_2", "ONEDNN_DEFAULT_FPMATH_MODE=BF16", "OMP_DYNAMIC=TRUE",
                  "OMP_THREAD_LIMIT=1", rekindle(), "join", dir()});
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 2; }));
  EXPECT_EQ(trainers_with("MKL_ENABLE_INSTRUCTIONS=SSE4_2"), 0);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  stop_and_compare();
  EXPECT_EQ(helper.wait().exit_code, 0);
}

// On Intel CPUs, MKL then uses other instructions than ATEN_CPU_CAPABILITY and MKL_CBWR specify.
const std::string kOtherInstructions = "MKL_ENABLE_INSTRUCTIONS=SSE4_2";

TEST_F(Surroundings, ResumeWhoseEnvironmentWantsOtherInstructions_SameBitsAndOneLine) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(begin(1, {}, {"/usr/bin/env", kOtherInstructions}));
  EXPECT_EQ(trainers_with(kOtherInstructions), 0);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome resumed = program_->wait();
  EXPECT_EQ(resumed.exit_code, 75) << resumed.err;
  EXPECT_EQ(times_in(resumed.err, "trainers do not get " + kOtherInstructions), 1U) << resumed.err;
  finish_and_compare();
}

TEST_F(Surroundings, FirstAttemptThatWantsOtherInstructions_TheWholeRunHasThem) {
  const Arguments prefix{"/usr/bin/env", kOtherInstructions};
  ASSERT_EQ(Program(prefix + Arguments{rekindle()} + mnist_run(dir(), 1, 3)).wait().exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(begin(1));
  EXPECT_EQ(trainers_with(kOtherInstructions), 1);
  Program helper(Arguments{rekindle(), "join", dir()});
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 2; }));
  EXPECT_EQ(trainers_with(kOtherInstructions), 2);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  EXPECT_EQ(helper.wait().exit_code, 0);
  const int steps = static_cast<int>(reached_step(dir())) + 3;
  EXPECT_EQ(run(mnist_run(dir(), 2, steps)).exit_code, 0);
  const fs::path quiet = scratch_ / "quiet";
  EXPECT_EQ(Program(prefix + Arguments{rekindle()} + mnist_run(quiet, 2, steps)).wait().exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(quiet));
}

TEST_F(Surroundings, PreloadedLibrary_OneLineOfWarning) {
#ifdef __SANITIZE_ADDRESS__
  REKINDLE_SKIP(Needs::kMachine, "the address sanitizer wants to be the first library");
#endif
  const Outcome outcome =
      Program(Arguments{"/usr/bin/env", "LD_PRELOAD=libm.so.6", rekindle()} + mnist_run(dir(), 1, 1)).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "LD_PRELOAD=libm.so.6 reaches the trainers"), 1U) << outcome.err;
}

TEST_F(Surroundings, HelpersThatDieAsSoonAsTheyHaveCome_SameBits) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  for (const char* moment : {"registered", "of them new", "of them new"}) {
    const int before = times_logged(moment);
    Program helper(Arguments{rekindle(), "join", dir()});
    ASSERT_NO_FATAL_FAILURE(wait_for_log(moment, before + 1));
    helper.signal(SIGKILL);  // together with its worker and trainer
    helper.wait();
    ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  }
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
