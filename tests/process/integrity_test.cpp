// A network that damages data between trainers: one bit of a gradient, not detected by the checksums of TCP
// (flipped_bit.cpp).
#include <fstream>

#include "../needs.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class DamagingNetwork : public LiveRun {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    REKINDLE_SKIP(Needs::kMachine, "the address sanitizer wants to be the first library");
#endif
  }
  fs::path flip() const { return scratch_ / "flip"; }
  // Workers whose trainers damage received data when the file flip() exists.
  Arguments damaging() const {
    return {"/usr/bin/env", "LD_PRELOAD=" REKINDLE_FLIPPED_BIT, "REKINDLE_TEST_FLIP=" + flip().string()};
  }
};

TEST_F(DamagingNetwork, BitFlippedInMidRun_WarnedOfOnceAndTheRunGoesOnWithTheSameBits) {
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--exchange", "tcp", "--exchange-integrity", "on"}, damaging()));
  EXPECT_EQ(times_logged("were changed on the way to"), 0) << log();
  std::ofstream(flip()).put('x');
  ASSERT_NO_FATAL_FAILURE(wait_for_log("were changed on the way to"));
  EXPECT_FALSE(fs::exists(flip()));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("goes on from step"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  EXPECT_EQ(times_logged("were changed on the way to"), 1) << log();
  EXPECT_EQ(times_logged("(1 of 3 times)"), 1) << log();
  EXPECT_EQ(times_logged("was lost"), 0) << log();  // no process died because of it
  EXPECT_NE(trainer_logs().find("the authentication tag is wrong"), std::string::npos) << trainer_logs();
  stop_and_compare();
}

// Shows why integrity is needed: no lower layer detects the bit. Both ranks may get the same wrong sum.
TEST_F(DamagingNetwork, BitFlippedWithoutIntegrity_NoLinkIsBlamed) {
  ASSERT_NO_FATAL_FAILURE(
      begin(2, {"--exchange", "tcp", "--exchange-integrity", "off", "--hash-every", "0"}, damaging()));
  std::ofstream(flip()).put('x');
  ASSERT_TRUE(eventually([&] { return !fs::exists(flip()); }));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(times_logged("were changed on the way to"), 0) << log();
  EXPECT_EQ(times_logged("failed, though both are alive"), 0) << log();
}

TEST(ExchangeIntegrity, OnAndOff_SameDigest) {
  const Scratch scratch;
  const auto digest = [&](const std::string& name, int workers, const Arguments& more) {
    const Outcome outcome = run(mnist_run(scratch / name, workers, 20) + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return digest_of(scratch / name);
  };
  const std::string expected = digest("one", 1, {});
  EXPECT_EQ(digest("on", 3, {"--exchange", "tcp", "--exchange-integrity", "on"}), expected);
  EXPECT_EQ(digest("off", 3, {"--exchange", "tcp", "--exchange-integrity", "off"}), expected);
}

// The option may change at a resume, because it does not affect the bits.
TEST(ExchangeIntegrity, SwitchedAtAResume_SameDigest) {
  const Scratch scratch;
  const Arguments tcp{"--exchange", "tcp", "--exchange-integrity"};
  EXPECT_EQ(run(mnist_run(scratch / "run", 2, 10) + tcp + Arguments{"off"}).exit_code, 0);
  const Outcome resumed = run(mnist_run(scratch / "run", 2, 20) + tcp + Arguments{"on"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_EQ(digest_of(scratch / "run"), quiet_digest(20));
}

}  // namespace
}  // namespace rekindle::process_test
