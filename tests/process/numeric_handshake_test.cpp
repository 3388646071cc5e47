// Trainers that compute different bits for a reason that no environment variable and no fingerprint shows: a
// preloaded library (other_bits.cpp). And a trainer that loads another LibTorch than it was built with
// (other_torch.cpp).
#include "../needs.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class NumericHandshake : public LiveRun {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    REKINDLE_SKIP(Needs::kMachine, "the address sanitizer wants to be the first library");
#endif
  }
  // The environment that makes the trainers of workers with a given name prefix compute wrong values.
  static Arguments faulty(const std::string& fault) {
    return {"/usr/bin/env", "LD_PRELOAD=" REKINDLE_OTHER_BITS, "REKINDLE_TEST_OTHER_BITS=" + fault};
  }
};

TEST_F(NumericHandshake, HelperWithOtherBits_RefusedAndTheRunKeepsItsBits) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  const Outcome helper = Program(faulty("wrong:") + Arguments{rekindle(), "join", dir()}).wait();
  EXPECT_EQ(helper.exit_code, 78) << helper.out << helper.err;
  EXPECT_EQ(times_logged("computes other bits than the others"), 1) << log();
  EXPECT_EQ(times_logged("LibTorch 2."), 2) << log();  // both machines are in that line
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(trainers_now(dir()), 1U);
  stop_and_compare();
}

TEST_F(NumericHandshake, OneOfThreeHasOtherBits_TheMajorityTrains) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {}, faulty("wrong:w0")));
  EXPECT_EQ(trainers_now(dir()), 2U);
  EXPECT_EQ(times_logged("computes other bits than the others"), 1) << log();
  stop_and_compare();
}

TEST_F(NumericHandshake, OneOfTwoHasOtherBits_TheRunEndsAndNamesBoth) {
  const Outcome outcome = Program(faulty("wrong:w0") + Arguments{rekindle()} + mnist_run(dir(), 2, 3)).wait();
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "no majority says which are right: trainer w"), 1U) << outcome.err;
  for (const char* name : {"trainer w0", "trainer w1"})
    EXPECT_EQ(times_in(outcome.err, name), 1U) << outcome.err;
  EXPECT_EQ(reached_step(dir()), 0U);
}

TEST_F(NumericHandshake, ComputationThatDiffersFromItself_TheFirstTensorIsNamed) {
  const Outcome outcome =
      Program(faulty("drifts:w0") + Arguments{rekindle()} + mnist_run(dir(), 1, 3)).wait();
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("is not deterministic"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("conv1.weight"), std::string::npos) << outcome.err;
}

TEST_F(NumericHandshake, ResumeWithOtherBits_OneWarningAndStrictRefuses) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  const Arguments resume = faulty("wrong:") + Arguments{rekindle()} + mnist_run(dir(), 1, 6);
  const Outcome strict = Program(resume + Arguments{"--strict"}).wait();
  EXPECT_EQ(strict.exit_code, 78) << strict.out << strict.err;
  EXPECT_EQ(reached_step(dir()), 3U);
  const Outcome resumed = Program(resume).wait();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_EQ(times_logged("from here on the bits differ"), 1) << log();
}

TEST_F(NumericHandshake, AnotherLibTorchThanThatOfTheBuild_78AndOneLine) {
  const Outcome outcome = Program(Arguments{"/usr/bin/env", "LD_PRELOAD=" REKINDLE_OTHER_TORCH, rekindle()} +
                                  mnist_run(dir(), 1, 3))
                              .wait();
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "this program was built with LibTorch 2."), 1U) << outcome.err;
  EXPECT_EQ(times_in(outcome.err, ", and LibTorch 1.2.3 is loaded: build it again with that LibTorch"), 1U)
      << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "\n"), 1U) << outcome.err;
  EXPECT_FALSE(fs::exists(dir()));
}

}  // namespace
}  // namespace rekindle::process_test
