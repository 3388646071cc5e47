#include <cmath>
#include <thread>

#include "replica_tools.hpp"

namespace rekindle::model {
namespace {

TEST_P(EachModel, LeafHasTheSameBitsInAnyOrderReplicaThreadAndAddress) {
  const auto one = make(GetParam());
  const Batch a = random_batch(GetParam(), 1), b = random_batch(GetParam(), 2);
  const std::vector<float> of_a = leaf(*one, a), of_b = leaf(*one, b);
  EXPECT_FALSE(same_bits(of_a, of_b));
  EXPECT_TRUE(same_bits(leaf(*one, a), of_a));

  // Another replica, the other order, another thread, memory at an odd multiple of a float.
  const auto other = make(GetParam());
  std::vector<float> memory(other->layout().floats() + 1);
  const std::span<float> unaligned = std::span(memory).subspan(1);
  std::thread([&] {
    EXPECT_TRUE(other->train({.images = b.images, .labels = b.labels}, 7, unaligned, kGoOn));
    EXPECT_TRUE(same_bits(unaligned, of_b));
    EXPECT_TRUE(other->train({.images = a.images, .labels = a.labels}, 7, unaligned, kGoOn));
    EXPECT_TRUE(same_bits(unaligned, of_a));
  }).join();
}

TEST_P(EachModel, DropoutFollowsItsKeyAlone) {
  const Batch batch = random_batch(GetParam(), 1);
  const auto replica = make(GetParam());
  EXPECT_FALSE(same_bits(leaf(*replica, batch, 1), leaf(*replica, batch, 2)));
  ModelConfig without = GetParam();
  without.dropout = 0;
  const auto plain = make(without);
  EXPECT_TRUE(same_bits(leaf(*plain, batch, 1), leaf(*plain, batch, 2)));
}

TEST_P(EachModel, AbandonedLeafLeavesTheNextOneRight) {
  const auto replica = make(GetParam());
  const Batch batch = random_batch(GetParam(), 1);
  const std::vector<float> expected = leaf(*replica, batch);
  const std::atomic<bool> aborted{true};
  std::vector<float> gradient(replica->layout().floats());
  const auto result = replica->train({.images = batch.images, .labels = batch.labels}, 7, gradient, aborted);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kAborted);
  const auto evaluated = replica->evaluate({.images = batch.images, .labels = batch.labels}, 7, aborted);
  ASSERT_FALSE(evaluated);
  EXPECT_EQ(evaluated.error().kind, ErrorKind::kAborted);
  EXPECT_TRUE(same_bits(leaf(*replica, batch), expected));
}

TEST_P(EachModel, UpdateInPiecesHasTheBitsOfTheWholeAndPaddingStaysZero) {
  const auto whole = make(GetParam()), pieces = make(GetParam());
  for (std::uint64_t step = 0; step < 2; ++step) {
    const std::vector<float> sum = leaf(*whole, random_batch(GetParam(), step));
    whole->update(0, sum, {.scale = 0.5F, .learning_rate = 0.01});
    const std::size_t third = sum.size() / 3 / trainer::kAlignFloats * trainer::kAlignFloats;
    pieces->update(0, std::span(sum).first(third), {.scale = 0.5F, .learning_rate = 0.01});
    pieces->update(third, std::span(sum).subspan(third), {.scale = 0.5F, .learning_rate = 0.01});
    ASSERT_TRUE(whole->finish_update());
    ASSERT_TRUE(pieces->finish_update());
  }
  EXPECT_EQ(digest(*whole), digest(*pieces));
  EXPECT_NE(digest(*whole), digest(*make(GetParam())));

  const std::vector<float> gradient = leaf(*whole, random_batch(GetParam(), 1));
  const std::size_t first = whole->layout().tensors()[0].offset;
  const float* const values = reinterpret_cast<const float*>(whole->state()[0].bytes.data()) - first;
  for (const float* memory : {gradient.data(), values})
    for (const trainer::TensorPlace& place : whole->layout().tensors())
      for (std::size_t i = place.end(); i % trainer::kAlignFloats != 0; ++i) EXPECT_EQ(memory[i], 0.0F);
  for (const float element : gradient) ASSERT_FALSE(std::isnan(element));
}

}  // namespace
}  // namespace rekindle::model
