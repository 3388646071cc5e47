#include "data/loader.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>

#include "base/random.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

std::vector<int> range(int first, int count) {
  std::vector<int> leaves(static_cast<std::size_t>(count));
  std::iota(leaves.begin(), leaves.end(), first);
  return leaves;
}

constexpr int kLeaves = 4, kLeafBatch = 3;

LoaderConfig config(int threads, int ahead = 0) {
  return {.seed = 5,
          .leaves = kLeaves,
          .leaf_batch = kLeafBatch,
          .transform = {32, true},
          .threads = threads,
          .ahead = ahead};
}

const Dataset& dataset() {
  static const auto kDataset = made("cifar10", 31);
  return *kDataset;
}

bool same(const LeafBatch& a, const LeafBatch& b) {
  return a.step == b.step && a.leaf == b.leaf && a.images == b.images && a.labels == b.labels &&
         a.samples == b.samples;
}

// The expected micro-batch `leaf` of `step`, computed from the definition.
LeafBatch expected(std::uint64_t step, int leaf) {
  const SampleOrder order(5, 31);
  LeafBatch batch{.step = step, .leaf = leaf, .images = std::vector<float>(kLeafBatch * 3 * 32 * 32)};
  for (std::uint64_t i = 0; i < kLeafBatch; ++i) {
    const std::size_t sample = order.sample_at(step * kLeaves * kLeafBatch + leaf * kLeafBatch + i);
    batch.samples.push_back(sample);
    batch.labels.push_back(dataset().label(Split::kTrain, sample));
    transform(dataset().info(), {32, true}, dataset().image(Split::kTrain, sample),
              stream_key(5, Draws::kAugment, {step, std::uint64_t(leaf), i}),
              std::span(batch.images).subspan(i * 3072, 3072));
  }
  return batch;
}

TEST(Loader, LeavesComeInOrderWithTheSameBitsForAnyThreadsAndAhead) {
  for (const int threads : {1, 2, 4}) {
    for (const int ahead : {0, 1, 7}) {
      Loader loader(dataset(), config(threads, ahead));
      loader.start(0, range(1, 2));
      for (std::uint64_t step = 0; step < 8; ++step) {
        for (const int leaf : {1, 2}) {
          LeafBatch batch = loader.next();
          ASSERT_TRUE(same(batch, expected(step, leaf)))
              << threads << " threads, step " << step << " leaf " << leaf;
          if (step % 2 == 0) loader.recycle(std::move(batch));  // reused buffers must not contain old values
        }
      }
    }
  }
}

TEST(Loader, ARestartInTheMiddleGivesTheNewRangeAndNothingOfTheOld) {
  Loader loader(dataset(), config(4));
  for (std::uint64_t round = 0; round < 50; ++round) {
    const int first = static_cast<int>(round % kLeaves), count = kLeaves - first;
    loader.start(round * 3, range(first, count));
    for (std::uint64_t n = 0; n < round % 6; ++n) {
      LeafBatch batch = loader.next();
      ASSERT_TRUE(same(batch, expected(round * 3 + n / count, first + static_cast<int>(n) % count))) << round;
      loader.recycle(std::move(batch));
    }
    if (round % 5 == 0) loader.stop();
  }
}

TEST(Loader, StopReleasesABlockedNext_StartGoesOn) {
  Loader loader(dataset(), config(2));
  EXPECT_TRUE(loader.next().images.empty());  // never started
  loader.start(0, range(0, kLeaves));
  std::jthread reader([&] {
    while (!loader.next().images.empty()) {
    }
  });
  loader.stop();
  reader.join();
  EXPECT_TRUE(loader.next().images.empty());
  loader.start(2, range(3, 1));
  EXPECT_TRUE(same(loader.next(), expected(2, 3)));
}

TEST(Loader, CanBeDestroyedAtAnyTime) {
  for (int round = 0; round < 40; ++round) {
    Loader loader(dataset(), config(1 + round % 4));
    if (round % 4 != 0) loader.start(0, range(0, kLeaves));
    if (round % 4 == 2) loader.next();
    if (round % 4 == 3) loader.stop();
  }
}

TEST(Loader, EverySampleIsSeenOnceAnEpochAcrossStraddlingBatches) {
  Loader loader(dataset(), config(2));
  loader.start(0, range(0, kLeaves));
  std::vector<std::size_t> stream;
  while (stream.size() < 31 * 3) {
    const LeafBatch batch = loader.next();
    stream.insert(stream.end(), batch.samples.begin(), batch.samples.end());
  }
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::size_t> samples(stream.begin() + epoch * 31, stream.begin() + (epoch + 1) * 31);
    std::sort(samples.begin(), samples.end());
    for (std::size_t i = 0; i < 31; ++i) ASSERT_EQ(samples[i], i) << "epoch " << epoch;
  }
}

TEST(Loader, WhoLoadsALeafDoesNotMatter) {
  Loader whole(dataset(), config(2)), upper(dataset(), config(1));
  whole.start(0, range(0, 4));
  upper.start(0, range(2, 2));
  for (int step = 0; step < 4; ++step) {
    whole.next();
    whole.next();
    for (int leaf = 2; leaf < 4; ++leaf) EXPECT_TRUE(same(whole.next(), upper.next()));
  }
}

TEST(TestBatch, IsTheTestImagesInOrderNeverAugmented) {
  const LeafBatch batch = test_batch(dataset(), {32, true}, 2, 4);
  EXPECT_EQ(batch.samples, (std::vector<std::size_t>{2, 3, 4, 5}));
  std::vector<float> image(3072);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch.labels[i], dataset().label(Split::kTest, 2 + i));
    transform(dataset().info(), {32, false}, dataset().image(Split::kTest, 2 + i), 99, image);
    EXPECT_TRUE(std::equal(image.begin(), image.end(), batch.images.begin() + i * 3072));
  }
}

}  // namespace
}  // namespace rekindle::data
