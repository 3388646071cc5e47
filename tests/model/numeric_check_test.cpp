#include "model/numeric_check.hpp"

#include "replica_tools.hpp"

namespace rekindle::model {
namespace {

// A replica whose gradients are wrong as a test says.
class FaultyReplica final : public Replica {
 public:
  struct Fault {
    std::size_t at = 0;           // in the gradient
    float first = 0, second = 0;  // added to it in the two computations
    double loss = 0;              // added to the second loss
  };
  FaultyReplica(Replica& sound, const Fault& fault) : sound_(sound), fault_(fault) {}

  checkpoint::State state() override { return sound_.state(); }
  Status download() override { return {}; }
  Status upload() override { return {}; }
  std::vector<std::span<const std::byte>> arenas() override { return sound_.arenas(); }
  std::size_t arena_floats() const override { return sound_.arena_floats(); }
  Result<LeafResult> train_leaf(std::span<const float> images, std::span<const std::int64_t> labels,
                                std::uint64_t dropout_key, std::span<float> gradient,
                                const std::atomic<bool>& aborted) override {
    REKINDLE_TRY(LeafResult result, sound_.train_leaf(images, labels, dropout_key, gradient, aborted));
    const bool first = calls_++ == 0;
    gradient[fault_.at] += first ? fault_.first : fault_.second;
    if (!first) result.loss += fault_.loss;
    return result;
  }
  Result<LeafResult> evaluate(std::span<const float>, std::span<const std::int64_t>) override {
    return fail("not here");
  }
  void update(std::size_t, std::span<const float>, float, double) override {}
  Status finish_update() override { return {}; }

 private:
  Replica& sound_;
  const Fault fault_;
  int calls_ = 0;
};

class NumericCheckTest : public testing::Test {
 protected:
  Result<NumericCheck> check(Replica& replica, std::uint64_t dropout_key = 7) {
    gradient_.assign(replica.arena_floats(), std::numeric_limits<float>::quiet_NaN());
    return check_numerics(replica, kMnist, batch_.images, batch_.labels, dropout_key, gradient_, kGoOn);
  }
  NumericCheck with(const FaultyReplica::Fault& fault) {
    FaultyReplica faulty(*sound_, fault);
    return check(faulty).value();
  }

  const std::unique_ptr<Replica> sound_ = make(kMnist);
  const Batch batch_ = random_batch(kMnist, 3);
  std::vector<float> gradient_;
};

TEST_F(NumericCheckTest, SameMicroBatchSameHash_AndTheStateStaysAsItIs) {
  const Hash128 before = digest(*sound_);
  const NumericCheck once = check(*sound_).value(), again = check(*make(kMnist)).value();
  EXPECT_EQ(once.mismatch, "");
  EXPECT_EQ(once.hash.size(), 32U);
  EXPECT_EQ(once.hash, again.hash);
  EXPECT_EQ(digest(*sound_), before);
}

// A gradient that is computed afterwards has the bits of one that is computed without the check.
TEST_F(NumericCheckTest, WhatComesAfterwardsIsAsWithoutIt) {
  ASSERT_TRUE(check(*sound_));
  EXPECT_TRUE(same_bits(leaf(*sound_, batch_, 9), leaf(*make(kMnist), batch_, 9)));
}

TEST_F(NumericCheckTest, OtherGradientLossOrDropout_OtherHash) {
  const std::string sound = check(*sound_).value().hash;
  EXPECT_NE(with({.at = 0, .first = 1e-3F, .second = 1e-3F}).hash, sound);
  EXPECT_NE(check(*sound_, 8).value().hash, sound);
  EXPECT_EQ(with({}).hash, sound);
}

TEST_F(NumericCheckTest, TwoComputationsThatDiffer_TheFirstTensorIsNamed) {
  EXPECT_EQ(with({.at = 0, .second = 1e-3F}).mismatch, "conv1.weight");
  // The last tensor's first float: it begins 16 floats before the arena's end (10 classes, and padding).
  EXPECT_EQ(with({.at = sound_->arena_floats() - 16, .second = 1e-3F}).mismatch, "fc2.bias");
  EXPECT_EQ(with({.loss = 1e-9}).mismatch, "the loss");
}

TEST_F(NumericCheckTest, ErrorOfAComputationIsPassedOn) {
  gradient_.resize(16);
  EXPECT_FALSE(check_numerics(*sound_, kMnist, batch_.images, batch_.labels, 7, std::span(gradient_), kGoOn));
}

TEST_F(NumericCheckTest, MachineIsNamedByItsProcessorAndItsLibraries) {
  const std::string text = describe_machine(kMnist);
  for (const char* part : {"LibTorch 2.", "oneDNN 3.", "MKL 20"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace rekindle::model
