// Promise 1 on real processes: the final state is the same after any faults.
#include <gtest/gtest.h>

#include <csignal>

#include "base/files.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 200;

std::string finished(const Arguments& arguments, const fs::path& run_dir) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  return digest_of(run_dir);
}

// Stops a run with `signal` after step `step`; false if the run was over before.
void stop_at(const Arguments& arguments, const fs::path& run_dir, std::uint64_t step, int signal,
             int exit_code) {
  Program program(Arguments{rekindle()} + arguments);
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) >= step || !program.running(); }));
  program.signal(signal);
  const Outcome outcome = program.wait();
  ASSERT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
}

class MnistCnn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Exchanges, MnistCnn, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

TEST_P(MnistCnn, AnyNumberOfWorkers_SameDigest) {
  const Scratch scratch;
  const std::string expected = finished(mnist_run(scratch / "w1", 1, kSteps), scratch / "w1");
  ASSERT_EQ(expected.size(), 33U) << expected;
  for (const int workers : {2, 3, 4, 8}) {
    const fs::path dir = scratch / ("w" + std::to_string(workers));
    EXPECT_EQ(finished(mnist_run(dir, workers, kSteps) + Arguments{"--exchange", GetParam()}, dir), expected)
        << workers << " workers";
  }
}

TEST_P(MnistCnn, StoppedAndResumedOnOtherNumbersOfWorkers_SameDigest) {
  const Scratch scratch;
  const std::string expected = finished(mnist_run(scratch / "quiet", 1, kSteps), scratch / "quiet");
  const fs::path dir = scratch / "stopped";
  const Arguments exchange{"--exchange", GetParam()};
  stop_at(mnist_run(dir, 2, kSteps) + exchange, dir, 20, SIGUSR1, 75);
  stop_at(mnist_run(dir, 3, kSteps) + exchange, dir, 70, SIGTERM, 75);
  stop_at(mnist_run(dir, 1, kSteps) + exchange, dir, 120, SIGINT, 130);
  EXPECT_EQ(finished(mnist_run(dir, 4, kSteps) + exchange, dir), expected);
  // Each attempt continued from the step at which the previous one was stopped.
  const std::string log = *read_text(run::Layout(dir).log("coordinator"));
  EXPECT_EQ(times_in(log, "starts from initial values"), 1U) << log;
  EXPECT_EQ(times_in(log, "resumes from step"), 3U) << log;
}

TEST(MnistCnn, OtherSeedOrBatch_OtherDigest) {
  const Scratch scratch;
  const auto digest = [&](const std::string& name, const Arguments& more) {
    return finished(mnist_run(scratch / name, 1, 5) + more, scratch / name);
  };
  const std::string base = digest("base", {});
  EXPECT_EQ(digest("again", {}), base);
  EXPECT_NE(digest("seed", {"--seed", "2"}), base);
  EXPECT_NE(digest("batch", {"--batch-size", "32"}), base);
  EXPECT_NE(digest("rate", {"--lr", "0.5"}), base);
}

TEST(MnistCnn, MoreWorkersThanMicroBatches_SparesWaitAndTheDigestIsTheSame) {
  const Scratch scratch;
  const std::string expected = finished(mnist_run(scratch / "w1", 1, 5), scratch / "w1");
  const Outcome outcome = run(mnist_run(scratch / "w10", 10, 5));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 of the 10 trainers will idle"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("as spares"), std::string::npos) << "once is enough: " << outcome.out;
  EXPECT_EQ(digest_of(scratch / "w10"), expected);
}

Arguments small_vgg_run(const fs::path& run_dir, int workers) {
  return vgg_run(run_dir, workers, 4) + Arguments{"--image-size", "32"};
}

TEST(Vgg11, AnyNumberOfWorkersOnSharedMemoryAndTcp_SameDigest) {
  const Scratch scratch;
  const std::string expected = finished(small_vgg_run(scratch / "w1", 1), scratch / "w1");
  ASSERT_EQ(expected.size(), 33U) << expected;
  for (const auto& [workers, exchange] : {std::pair(2, "shm"), {3, "shm"}, {3, "tcp"}, {4, "tcp"}}) {
    const fs::path dir = scratch / "run";
    EXPECT_EQ(finished(small_vgg_run(dir, workers) + Arguments{"--exchange", exchange}, dir), expected)
        << workers << " workers, " << exchange;
    fs::remove_all(dir);  // a gigabyte each
  }
}

TEST(Vgg11, StoppedAndResumedOnOtherNumbersOfWorkers_SameDigest) {
  const Scratch scratch;
  const std::string expected = finished(small_vgg_run(scratch / "quiet", 1), scratch / "quiet");
  const fs::path dir = scratch / "stopped";
  stop_at(small_vgg_run(dir, 2), dir, 1, SIGUSR1, 75);
  EXPECT_EQ(finished(small_vgg_run(dir, 3), dir), expected);
}

}  // namespace
}  // namespace rekindle::process_test
