// Promise 1 for an image folder: decoding ahead or in the step, augmentation and corrupt files have the same
// bits for any number of workers and of loader threads, after a stop and a kill.
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 12;

class Images : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome made = run({"make-data", "image-folder", images(), "--samples", "100"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  std::string images() const { return scratch_ / "images"; }
  Arguments arguments(const fs::path& dir, int workers, int threads) const {
    return {"local",        "--run-dir",       dir,         "--workers",
            str(workers),   "--steps",         str(kSteps), "--batch-size",
            "16",           "--micro-batches", "8",         "--model",
            "resnet18",     "--image-size",    "32",        "--dataset",
            "image-folder", "--data",          images(),    "--loader-threads",
            str(threads)};
  }
  Scratch scratch_;
};

class ImageBits : public Images, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Images::SetUp());
    if (!with_corrupt()) return;
    int number = 0;  // every 20th file
    for (const auto& entry : fs::recursive_directory_iterator(images()))
      if (entry.path().extension() == ".JPEG" && number++ % 20 == 3) fs::resize_file(entry.path(), 200);
  }
  bool with_corrupt() const { return GetParam(); }
  Arguments arguments(const fs::path& dir, int workers, int threads) const {
    return Images::arguments(dir, workers, threads) +
           (with_corrupt() ? Arguments{"--skip-corrupt"} : Arguments{});
  }
  std::string digest(int workers, int threads) const {
    const fs::path dir = scratch_ / str("w", workers, "t", threads);
    const Outcome outcome = run(arguments(dir, workers, threads));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return digest_of(dir);
  }
};
INSTANTIATE_TEST_SUITE_P(Files, ImageBits, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Corrupt" : "Readable"; });

TEST_P(ImageBits, AnyWorkersAndLoaderThreadsAStopAndAKill_SameDigest) {
  const std::string expected = digest(1, 1);
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest(3, 0), expected);
  EXPECT_EQ(digest(8, 4), expected);
  const fs::path dir = scratch_ / "faults";
  ASSERT_NO_FATAL_FAILURE(kill_a_trainer_and_stop(arguments(dir, 3, 4), dir, 1));
  EXPECT_EQ(run(arguments(dir, 2, 0)).exit_code, 0);
  EXPECT_EQ(digest_of(dir), expected);
}

TEST_F(Images, CorruptFileInALaterStep_StateIsSavedAndSkippingGoesOnWithTheSameBits) {
  fs::resize_file(fs::path(images()) / "train/n00000003/images/n00000003_1.JPEG", 200);
  const fs::path dir = scratch_ / "run";
  const Outcome stopped = run(arguments(dir, 3, 1));
  EXPECT_EQ(stopped.exit_code, 78) << stopped.err;
  EXPECT_NE(stopped.err.find("the state is saved: "), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("n00000003_1.JPEG is a damaged JPEG file"), std::string::npos) << stopped.err;
  const auto reached = reached_step(dir);
  EXPECT_GE(reached, 1);
  EXPECT_LT(reached, kSteps);
  const Arguments skipping = {"--skip-corrupt"};
  EXPECT_EQ(run(arguments(dir, 1, 0) + skipping).exit_code, 0);
  EXPECT_EQ(run(arguments(dir, 1, 0)).exit_code, 0) << "the first command works as well from now on";
  EXPECT_EQ(run(arguments(scratch_ / "skipped", 2, 1) + skipping).exit_code, 0);
  EXPECT_EQ(digest_of(dir), digest_of(scratch_ / "skipped"));
}

// Without the option, the data of a new run do not even open.
TEST_F(Images, EmptyFile_LaterStartsNeedNotRepeatTheOption) {
  fs::resize_file(fs::path(images()) / "train/n00000003/images/n00000003_1.JPEG", 0);
  const fs::path dir = scratch_ / "run";
  const auto start = [&](const char* steps, const Arguments& more) {
    return run(arguments(dir, 1, 0) + Arguments{"--steps", steps} + more).exit_code;
  };
  EXPECT_EQ(start("2", {}), 78);
  EXPECT_EQ(start("2", {"--skip-corrupt"}), 0);
  EXPECT_EQ(start("4", {}), 0);
}

// The command of examples/tiny-imagenet/README.md, made small.
TEST_F(Images, TinyImageNetJobWithResnet50_OneStepWithTheSameDigest) {
  const std::string config = fs::path(REKINDLE_SOURCE) / "examples/tiny-imagenet/resnet18.toml";
  const auto digest = [&](int workers) {
    const fs::path dir = scratch_ / str("w", workers);
    const Arguments small = {"--image-size",    "32", "--batch-size", "4",
                             "--micro-batches", "2",  "--steps",      "1"};
    const Outcome outcome = run(
        Arguments{"local", "--config", config, "--model", "resnet50", "--run-dir", dir, "--data", images()} +
        small +
        Arguments{"--workers", str(workers), "--loader-threads", "1", "--warmup-steps", "0", "--schedule",
                  "constant"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(times_in(read_text(dir / "run.toml").value_or(""), "\"resnet50\""), 1U);
    return digest_of(dir);
  };
  const std::string expected = digest(1);
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest(2), expected);
}

TEST_P(ImageBits, ACorruptFileIsNamed_OrSkippedAndCounted) {
  if (!with_corrupt()) {
    const fs::path bad = fs::path(images()) / "train/n00000003/images/n00000003_1.JPEG";
    std::ofstream(bad) << "<html>";
    const Outcome outcome = run(arguments(scratch_ / "run", 1, 2) + Arguments{"--steps", "7"});
    EXPECT_EQ(outcome.exit_code, 78) << outcome.err;
    EXPECT_NE(outcome.err.find(bad.string() + " is neither a JPEG nor a PNG file"), std::string::npos)
        << outcome.err;
    return;
  }
  const Outcome outcome = run(arguments(scratch_ / "w1t1", 1, 1));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_GE(times_in(outcome.out + outcome.err, "is a damaged JPEG file"), 3U) << outcome.out << outcome.err;
  const std::string log = read_text(run::Layout(scratch_ / "w1t1").log("coordinator")).value_or("");
  EXPECT_GE(times_in(log, "is a damaged JPEG file"), 3U) << log;
  EXPECT_EQ(times_in(log, "the next readable sample takes its place (3 so far)"), 1U) << log;
}

}  // namespace
}  // namespace rekindle::process_test
