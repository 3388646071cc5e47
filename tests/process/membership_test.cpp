// Joins, refusals, too few trainers, crash loops, wrong bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "data/loader.hpp"
#include "harness.hpp"
#include "memory_bits.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

class Membership : public ::testing::Test {
 protected:
  void TearDown() override {
    program_.reset();
    EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  }
  fs::path dir() const { return scratch_ / "run"; }
  std::string log() const {
    const auto text = read_text(run::Layout(dir()).log("coordinator"));
    return text ? *text : "";
  }
  bool logged(const std::string& words) const { return log().find(words) != std::string::npos; }
  void begin(int workers, int steps, const Arguments& more = {}) {
    program_.emplace(Arguments{rekindle()} + mnist_run(dir(), workers, steps) + more);
    wait_for_step(5);
  }
  void wait_for_step(std::uint64_t step) {
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= step || !program_->running(); }));
    ASSERT_TRUE(program_->running()) << program_->wait().err;
  }
  void wait_for_log(const std::string& words) {
    ASSERT_TRUE(eventually([&] { return logged(words) || !program_->running(); })) << words;
    ASSERT_TRUE(logged(words)) << log();
  }
  // The same program, except that one part comes from another build.
  std::string other_build(const std::string& part) const {
    const fs::path bin = scratch_ / str("other-", part);
    fs::create_directories(bin);
    for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"})
      fs::copy_file(fs::path(rekindle()).parent_path() / name, bin / name);
    std::ofstream(bin / part, std::ios::app) << "other";
    const auto libraries = libraries_of(fs::path(rekindle()).parent_path() / "rekindle-trainer");
    for (const Library& library : libraries.value_or(std::vector<Library>())) {
      if (library.name == "libtorch_cpu.so")
        fs::create_directory_symlink(library.path.parent_path(), bin / "lib");
    }
    return bin / "rekindle";
  }
  std::size_t trainers_there() const {
    const auto text = read_text(run::Layout(dir()).status());
    const auto status = nlohmann::json::parse(text.value_or(""), nullptr, false);
    return status.is_object() ? status.value("trainers", nlohmann::json::array()).size() : 0;
  }
  // Stops the run, and finishes it at a later step.
  void stop_and_compare() {
    EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
    const Outcome outcome = program_->wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
    const int steps = common_steps_after(reached_step(dir()));
    EXPECT_EQ(run(mnist_run(dir(), 2, steps)).exit_code, 0);
    EXPECT_EQ(digest_of(dir()), quiet_digest(steps));
  }

  Scratch scratch_;
  std::optional<Program> program_;
};

TEST_F(Membership, SeveralJoinWhileItRuns_ThenOneDies_SameBits) {
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000));
  Program two(Arguments{rekindle(), "join", dir(), "--workers", "2"});
  Program one(Arguments{rekindle(), "join", dir()});
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 4; }));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 4 trainers"));
  one.signal(SIGKILL);  // together with its worker and trainer
  one.wait();
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  wait_for_step(reached_step(dir()) + 3);
  stop_and_compare();
  EXPECT_EQ(two.wait().exit_code, 0);  // the helper has the same exit code as the run
}

TEST_F(Membership, JoinerOfAnotherBuild_RefusedAndTheRunGoesOn) {
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000));
  for (const char* part : {"rekindle-control", "rekindle-trainer"}) {
    const Outcome outcome = Program({other_build(part), "join", dir()}).wait();
    EXPECT_EQ(outcome.exit_code, 78) << part << outcome.err;
    EXPECT_NE(outcome.err.find("does not accept these workers"), std::string::npos) << outcome.err;
  }
  wait_for_step(reached_step(dir()) + 3);
  stop_and_compare();
}

TEST_F(Membership, JoinerOfAnotherBuildIsThereFirst_SentAwayWhenTheRunsOwnTrainersCome) {
  program_.emplace(Arguments{rekindle()} + mnist_run(dir(), 1, 100000));
  std::vector<pid_t> own;
  ASSERT_TRUE(eventually([&] { return (own = parts_of(dir(), "trainer")).size() == 1; }));
  ::kill(own.front(), SIGSTOP);
  Program joiner({other_build("rekindle-trainer"), "join", dir()});
  EXPECT_TRUE(eventually([&] { return trainers_there() == 1; }));
  ::kill(own.front(), SIGCONT);
  EXPECT_EQ(joiner.wait().exit_code, 78);
  wait_for_step(5);
  stop_and_compare();
}

TEST_F(Membership, JoinWhereNoRunBegins_RefusedAfterTheWait) {
  for (const char* wait : {"0s", "1s"}) {
    const Outcome outcome = run({"join", scratch_ / "nothing", "--wait", wait});
    EXPECT_EQ(outcome.exit_code, 78);
    EXPECT_NE(outcome.err.find("no run that can be joined"), std::string::npos) << outcome.err;
    const std::string line = "/nothing (there is no such folder): waiting for it, at most 1s (--wait)\n";
    EXPECT_EQ(times_in(outcome.out, line), *wait == '0' ? 0U : 1U) << outcome.out;
  }
}

TEST_F(Membership, JoinBeforeTheRunBegins_WaitsAndHelps) {
  Program helper({rekindle(), "join", dir()});
  ASSERT_TRUE(eventually([&] { return helper.printed().find("no run has begun in") != std::string::npos; }));
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000));
  ASSERT_TRUE(eventually([&] { return helper.printed().find("joined: 1 trainer") != std::string::npos; }))
      << helper.printed();
  stop_and_compare();
  EXPECT_EQ(helper.wait().exit_code, 0);
}

TEST_F(Membership, JoinOfARunThatDoesNotReturn_SaysSoAndEnds75) {
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000));
  program_->signal(SIGUSR1);
  ASSERT_EQ(program_->wait().exit_code, 75);
  const Outcome outcome = run({"join", dir(), "--wait", "2s"});
  EXPECT_NE(outcome.out.find("no attempt of this run is running: waiting for the next attempt"),
            std::string::npos);
  EXPECT_EQ(outcome.exit_code, 75);
  EXPECT_NE(outcome.err.find("was not started again within --wait"), std::string::npos) << outcome.err;
}

TEST_F(Membership, HelperThatWaited_UsesTheOptionsOfTheNextAttempt) {
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000));
  program_->signal(SIGUSR1);
  ASSERT_EQ(program_->wait().exit_code, 75);
  Program helper({rekindle(), "join", dir()});
  ASSERT_TRUE(
      eventually([&] { return helper.printed().find("waiting for the next attempt") != std::string::npos; }));
  EXPECT_TRUE(parts_of(dir(), "worker").empty());
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000, {"--interface", "lo"}));
  ASSERT_TRUE(eventually([&] { return helper.printed().find("joined: 1 trainer") != std::string::npos; }))
      << helper.printed();
  for (const pid_t worker : parts_of(dir(), "worker")) {
    if (static_cast<pid_t>(stat_field(worker, 4)) != helper.pid()) continue;
    EXPECT_NE(command_line(worker).find(std::string("--interface\0lo", 14)), std::string::npos);
  }
  stop_and_compare();
  EXPECT_EQ(helper.wait().exit_code, 0);
}

// A helper that was not needed is not a failed job.
TEST_F(Membership, JoinInASlurmJobOfARunThatDoesNotReturn_SaysSoAndEnds0) {
  ASSERT_NO_FATAL_FAILURE(begin(1, 100000));
  program_->signal(SIGUSR1);
  ASSERT_EQ(program_->wait().exit_code, 75);
  const Outcome outcome =
      Program({"/usr/bin/env", "SLURM_JOB_ID=77", rekindle(), "join", dir(), "--wait", "2s"}).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("was not started again within --wait: this job ends"), std::string::npos)
      << outcome.out;
}

// Its shards would be written into the copy, so no checkpoint of the run would be complete.
TEST_F(Membership, JoinOfAFile_SaysSo) {
  std::ofstream(scratch_ / "file") << "x";
  const Outcome outcome = run({"join", scratch_ / "file"});
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_NE(outcome.err.find("is a file"), std::string::npos) << outcome.err;
}

TEST_F(Membership, StopWhereThereIsNoRun_Refused) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 78);
}

TEST_F(Membership, TooFew_WaitsAndGoesOnWhenSomebodyJoins) {
  ASSERT_NO_FATAL_FAILURE(begin(2, 100000, {"--min-trainers", "2"}));
  // The worker must not come back: each replacement is suspended at once.
  const auto workers = parts_of(dir(), "worker");
  ::kill(workers.at(1), SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("waiting for trainers"));
  Program joiner(Arguments{rekindle(), "join", dir()});
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 3; }));
  wait_for_step(reached_step(dir()) + 3);
  ::kill(workers.at(1), SIGCONT);
  wait_for_step(reached_step(dir()) + 3);
  stop_and_compare();
  EXPECT_EQ(joiner.wait().exit_code, 0);
}

TEST_F(Membership, TooFewForTheGatherTime_SavedAndEnded75) {
  // The gather time allows for a first gathering on a slow machine.
  ASSERT_NO_FATAL_FAILURE(
      begin(2, 100000, {"--min-trainers", "2", "--gather-time", "10s", "--lost-after", "2s"}));
  const auto workers = parts_of(dir(), "worker");
  ::kill(workers.at(0), SIGSTOP);
  const Outcome outcome = program_->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  // The reports of the suspended worker are lost, but not the steps of its trainer: the records may be
  // behind.
  const auto said = outcome.out.find("stopped at step ");
  ASSERT_NE(said, std::string::npos) << outcome.out;
  const int steps = common_steps_after(std::stoul(outcome.out.substr(said + 16)));
  EXPECT_EQ(run(mnist_run(dir(), 2, steps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), quiet_digest(steps));
}

// The samples of a step of vgg_run() with this seed.
std::string samples_of_step(std::uint64_t seed, std::uint64_t step) {
  constexpr std::uint64_t kBatch = 4, kImages = 100;
  const data::SampleOrder order(seed, kImages);
  std::string list;
  for (std::uint64_t i = 0; i < kBatch; ++i)
    list += str(i == 0 ? "" : ", ", order.sample_at(step * kBatch + i));
  return list;
}

TEST_F(Membership, TrainersThatCrashAtOneStep_GivenUpWithItsSamples) {
  constexpr std::uint64_t kSeed = 5;
  // A step takes long enough that the kill always happens during a step.
  program_.emplace(Arguments{rekindle()} + vgg_run(dir(), 1, 100) + Arguments{"--seed", str(kSeed)});
  for (int generation = 1; generation <= 8 && program_->running(); ++generation) {
    if (!eventually([&] { return logged(str("generation t1.g", generation, " ")) || !program_->running(); }))
      break;
    for (const pid_t pid : parts_of(dir(), "trainer")) ::kill(pid, SIGSEGV);
  }
  const Outcome outcome = program_->wait();
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out;
  EXPECT_NE(outcome.err.find("again and again at step"), std::string::npos) << outcome.err;
  std::smatch said;
  ASSERT_TRUE(
      std::regex_search(outcome.err, said, std::regex("at step ([0-9]+).*its samples are ([0-9, ]+)")))
      << outcome.err;
  EXPECT_EQ(said.str(2), samples_of_step(kSeed, std::stoull(said.str(1)))) << outcome.err;
}

TEST_F(Membership, FlippedBitInOneReplica_FoundRolledBackAndTheSameEnd) {
  ASSERT_NO_FATAL_FAILURE(
      begin(3, 100000, {"--checkpoint-every", "10", "--hash-every", "3", "--lost-after", "1min"}));
  for (int tries = 0; tries < 100 && !logged("states differ at step"); ++tries) {
    const std::string before = log();
    ASSERT_TRUE(eventually([&] { return log().find("is committed", before.size()) != std::string::npos; }));
    const auto trainers = parts_of(dir(), "trainer");
    for (const pid_t pid : trainers) ::kill(pid, SIGSTOP);
    const bool flipped = flip_a_bit(trainers.at(1), dir());
    const std::uint64_t reached = reached_step(dir());
    for (const pid_t pid : trainers) ::kill(pid, SIGCONT);
    // The flip may have hit only a released copy.
    if (flipped)
      eventually([&] { return logged("states differ at step") || reached_step(dir()) >= reached + 6; });
  }
  ASSERT_NO_FATAL_FAILURE(wait_for_log("states differ at step"));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("resumes from step"));
  wait_for_step(reached_step(dir()) + 3);
  stop_and_compare();
}

TEST_F(Membership, KeyReadableByOthers_RefusedWithTheCommandThatMendsIt) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  fs::permissions(dir() / "key/run.pem", fs::perms::owner_read | fs::perms::group_read);
  const Outcome outcome = run(mnist_run(dir(), 1, 6));
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_NE(outcome.err.find("chmod -R go-rwx"), std::string::npos) << outcome.err;
}

TEST_F(Membership, DirectoryThatOthersMayChange_RefusedWithTheCommandThatMendsIt) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  fs::permissions(dir(), fs::perms::group_write, fs::perm_options::add);
  for (const Arguments& command : {mnist_run(dir(), 1, 6), Arguments{"join", dir()}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_code, 78);
    EXPECT_NE(outcome.err.find("chmod -R go-w"), std::string::npos) << outcome.err;
  }
}

TEST_F(Membership, DirectoryThatOthersMayRead_IsFine) {
  fs::create_directories(dir());
  fs::permissions(dir(), fs::perms(0755));
  EXPECT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  EXPECT_EQ(fs::status(dir() / "key").permissions(), fs::perms::owner_all);
}

}  // namespace
}  // namespace rekindle::process_test
