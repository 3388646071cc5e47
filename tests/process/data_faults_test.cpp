// Image files that one machine cannot use, that are away for a while, and that are gone for good.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class DataFaults : public LiveRun {
 protected:
  void SetUp() override {
    const Outcome made = run({"make-data", "image-folder", images(), "--samples", "60"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  fs::path images() const { return scratch_ / "images"; }
  fs::path away() const { return scratch_ / "away"; }
  Arguments arguments(const fs::path& dir, int workers, std::uint64_t steps) const {
    return {"local",
            "--run-dir",
            dir,
            "--workers",
            str(workers),
            "--steps",
            str(steps),
            "--model",
            "resnet18",
            "--image-size",
            "32",
            "--batch-size",
            "8",
            "--dataset",
            "image-folder",
            "--data",
            images(),
            "--micro-batches",
            "4"};
  }
  void start(int workers) {
    program_.emplace(Arguments{rekindle()} + arguments(dir(), workers, 1000000));
    wait_for_step(2);
  }
  void has_the_bits_of_a_quiet_run() {
    const std::uint64_t steps = reached_step(dir()) + 2;
    const Outcome finished = run(arguments(dir(), 1, steps));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_TRUE(missing_steps(dir(), steps).empty());
    EXPECT_EQ(run(arguments(scratch_ / "quiet", 1, steps)).exit_code, 0);
    EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
  }
};

// The helper has the host name of the run's own worker, and a bad copy of the data in its place.
TEST_F(DataFaults, HelperWithABadCopy_IsLeftOutAndTheRunGoesOn) {
  const auto able = run_command({"unshare", "--mount", "true"}, std::chrono::seconds(10));
  if (!able || !able->ok()) REKINDLE_SKIP(Needs::kOwnMounts, "cannot make a mount namespace");
  const fs::path bad = scratch_ / "bad";
  fs::copy(images(), bad, fs::copy_options::recursive);
  // The helper meets one soon. The numeric handshake of the default seed uses other files.
  for (int i = 1; i < 6; ++i)
    for (const int label : {1, 4, 6}) {
      const std::string name = str("n0000000", label);
      const fs::path file = bad / "train" / name / "images" / str(name, "_", i, ".JPEG");
      ASSERT_TRUE(fs::exists(file)) << file;
      const auto size = fs::file_size(file);
      std::ofstream(file, std::ios::binary) << std::string(size, 'x');
    }
  ASSERT_NO_FATAL_FAILURE(start(1));
  Program helper({"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
                  "mount --bind \"$0\" \"$1\" && exec \"$2\" join \"$3\"", bad, images(), rekindle(), dir()});
  const Outcome left = helper.wait();
  EXPECT_EQ(left.exit_code, 78) << left.out << left.err;
  EXPECT_NE(left.err.find("is left out, because samples cannot be used there"), std::string::npos)
      << left.err;
  EXPECT_NE(left.err.find(".JPEG"), std::string::npos) << left.err;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(trainers_now(dir()), 1U);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  has_the_bits_of_a_quiet_run();
}

// The index of the folder, which names the file, is not written while the folder changes.
TEST_F(DataFaults, AFileMoreBetweenTwoAttempts_IsNamed) {
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : fs::recursive_directory_iterator(images())) fs::last_write_time(entry, past);
  ASSERT_EQ(run(arguments(dir(), 1, 1)).exit_code, 0);
  const fs::path file = images() / "train/n00000001/images/n00000001_1.JPEG";
  fs::copy_file(file, file.parent_path() / "more.JPEG");
  const Outcome outcome = run(arguments(dir(), 1, 2));
  EXPECT_EQ(outcome.exit_code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("the content of --data has changed since the run began: "
                             "train/n00000001/images/more.JPEG is new"),
            std::string::npos)
      << outcome.err;
}

// Two hashes would not tell which file to restore.
TEST_F(DataFaults, AFileOfMnistWithOtherBytesAtAResume_IsNamed) {
  const fs::path digits = scratch_ / "digits", labels = digits / "train-labels-idx1-ubyte";
  ASSERT_EQ(run({"make-data", "mnist", digits, "--samples", "60"}).exit_code, 0);
  const auto with_steps = [&](int steps) {
    return Arguments{"local",    "--run-dir",    dir(),     "--dataset",       "mnist",
                     "--data",   digits,         "--model", "mnist-cnn",       "--steps",
                     str(steps), "--batch-size", "8",       "--micro-batches", "4"};
  };
  ASSERT_EQ(run(with_steps(1)).exit_code, 0);
  std::string bytes = *read_text(labels);
  bytes.back() = bytes.back() == '\1' ? '\2' : '\1';
  std::ofstream(labels, std::ios::binary) << bytes;
  const Outcome outcome = run(with_steps(2));
  EXPECT_EQ(outcome.exit_code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("the content of --data has changed since the run began: "
                             "train-labels-idx1-ubyte (written since its last start)"),
            std::string::npos)
      << outcome.err;
}

TEST_F(DataFaults, DataAwayForAWhile_NoTrainerEndsAndNoStepIsLost) {
  ASSERT_NO_FATAL_FAILURE(start(2));
  fs::rename(images(), away());
  ASSERT_TRUE(eventually([&] { return trainer_logs().find("tries again for ") != std::string::npos; }));
  EXPECT_NE(trainer_logs().find(".JPEG: No such file or directory"), std::string::npos) << trainer_logs();
  fs::rename(away(), images());
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  EXPECT_EQ(log().find("was lost"), std::string::npos) << log();
  has_the_bits_of_a_quiet_run();
}

TEST_F(DataFaults, StopWhileTheDataAreAway_SavesAtOnce) {
  ASSERT_NO_FATAL_FAILURE(start(2));
  fs::rename(images(), away());
  ASSERT_TRUE(eventually([&] { return trainer_logs().find("tries again for ") != std::string::npos; }));
  const std::uint64_t reached = reached_step(dir());
  const auto asked = std::chrono::steady_clock::now();
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome stopped = program_->wait();
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::minutes(5)) << "it waited for the data";
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  EXPECT_NE(stopped.out.find("the state is saved"), std::string::npos) << stopped.out;
  fs::rename(away(), images());
  EXPECT_GE(reached_step(dir()), reached);
  has_the_bits_of_a_quiet_run();
}

TEST_F(DataFaults, DataGoneForGood_StateIsSavedAndTheFileNamed) {
  program_.emplace(Arguments{rekindle()} + arguments(dir(), 2, 1000000) + Arguments{"--data-wait", "5s"});
  wait_for_step(2);
  fs::rename(images(), away());
  const Outcome ended = program_->wait();
  EXPECT_EQ(ended.exit_code, 75) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("the state is saved: on host "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find(".JPEG: No such file or directory (tried for 5 s)"), std::string::npos)
      << ended.out;
  EXPECT_NE(ended.out.find("cannot read its samples now and tries again"), std::string::npos) << ended.out;
  const std::uint64_t reached = reached_step(dir());
  fs::rename(away(), images());
  const Outcome resumed = run(arguments(dir(), 1, reached + 1));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find(str("resumes from step ", reached)), std::string::npos) << resumed.out;
}

}  // namespace
}  // namespace rekindle::process_test
