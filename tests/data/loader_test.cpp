#include "data/loader.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <numeric>
#include <thread>

#include "base/random.hpp"
#include "base/text.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

std::vector<int> range(int first, int count) {
  std::vector<int> micro_batches(static_cast<std::size_t>(count));
  std::iota(micro_batches.begin(), micro_batches.end(), first);
  return micro_batches;
}

constexpr int kMicroBatches = 4, kSamples = 3;

LoaderConfig config(int threads, int ahead = 0) {
  return {.seed = 5,
          .micro_batches = kMicroBatches,
          .samples = kSamples,
          .transform = {32, Augment::kCrop},
          .threads = threads,
          .ahead = ahead};
}

const Dataset& dataset() {
  static const auto kDataset = made("cifar10", 31);
  return *kDataset;
}

bool same(const Batch& a, const Batch& b) {
  return a.step == b.step && a.micro_batch == b.micro_batch && a.images == b.images && a.labels == b.labels &&
         a.samples == b.samples;
}

// The expected micro-batch `micro_batch` of `step`, computed from the definition.
Batch expected(std::uint64_t step, int micro_batch) {
  const SampleOrder order(5, 31);
  Batch batch{.step = step, .micro_batch = micro_batch, .images = Floats(kSamples * 3 * 32 * 32)};
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::size_t sample = order.sample_at(step * kMicroBatches * kSamples + micro_batch * kSamples + i);
    batch.samples.push_back(sample);
    batch.labels.push_back(raw(dataset()).label(Split::kTrain, sample));
    transform(Preprocessing::kImageNet, {32, Augment::kCrop}, raw(dataset()).image(Split::kTrain, sample),
              stream_key(5, Draws::kAugment, {step, std::uint64_t(micro_batch), i}),
              std::span(batch.images).subspan(i * 3072, 3072));
  }
  return batch;
}

TEST(Loader, MicroBatchesComeInOrderWithTheSameBitsForAnyThreadsAndAhead) {
  for (const int threads : {0, 1, 2, 4}) {
    for (const int ahead : {0, 1, 7}) {
      Loader loader(dataset(), config(threads, ahead));
      loader.start(0, range(1, 2));
      for (std::uint64_t step = 0; step < 8; ++step) {
        for (const int micro_batch : {1, 2}) {
          Batch batch = *loader.next();
          ASSERT_TRUE(same(batch, expected(step, micro_batch)))
              << threads << " threads, step " << step << " micro-batch " << micro_batch;
          if (step % 2 == 0) loader.recycle(std::move(batch));  // reused buffers must not contain old values
        }
      }
    }
  }
}

TEST(Loader, ARestartInTheMiddleGivesTheNewRangeAndNothingOfTheOld) {
  Loader loader(dataset(), config(4));
  for (std::uint64_t round = 0; round < 50; ++round) {
    const int first = static_cast<int>(round % kMicroBatches), count = kMicroBatches - first;
    loader.start(round * 3, range(first, count));
    for (std::uint64_t n = 0; n < round % 6; ++n) {
      Batch batch = *loader.next();
      ASSERT_TRUE(same(batch, expected(round * 3 + n / count, first + static_cast<int>(n) % count))) << round;
      loader.recycle(std::move(batch));
    }
    if (round % 5 == 0) loader.stop();
  }
}

TEST(Loader, StopReleasesABlockedNext_StartGoesOn) {
  Loader loader(dataset(), config(2));
  EXPECT_TRUE(loader.next()->empty());  // never started
  loader.start(0, range(0, kMicroBatches));
  std::jthread reader([&] {
    while (!loader.next()->empty()) {
    }
  });
  loader.stop();
  reader.join();
  EXPECT_TRUE(loader.next()->empty());
  loader.start(2, range(3, 1));
  EXPECT_TRUE(same(*loader.next(), expected(2, 3)));
}

TEST(Loader, CanBeDestroyedAtAnyTime) {
  for (int round = 0; round < 40; ++round) {
    Loader loader(dataset(), config(1 + round % 4));
    if (round % 4 != 0) loader.start(0, range(0, kMicroBatches));
    if (round % 4 == 2) loader.next();
    if (round % 4 == 3) loader.stop();
  }
}

TEST(Loader, EverySampleIsSeenOnceAnEpochAcrossStraddlingBatches) {
  Loader loader(dataset(), config(2));
  loader.start(0, range(0, kMicroBatches));
  std::vector<std::size_t> stream;
  while (stream.size() < 31 * 3) {
    const Batch batch = *loader.next();
    stream.insert(stream.end(), batch.samples.begin(), batch.samples.end());
  }
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::size_t> samples(stream.begin() + epoch * 31, stream.begin() + (epoch + 1) * 31);
    std::sort(samples.begin(), samples.end());
    for (std::size_t i = 0; i < 31; ++i) ASSERT_EQ(samples[i], i) << "epoch " << epoch;
  }
}

TEST(Loader, WhoLoadsAMicroBatchDoesNotMatter) {
  Loader whole(dataset(), config(2)), upper(dataset(), config(1));
  whole.start(0, range(0, 4));
  upper.start(0, range(2, 2));
  for (int step = 0; step < 4; ++step) {
    whole.next();
    whole.next();
    for (int micro_batch = 2; micro_batch < 4; ++micro_batch) EXPECT_TRUE(same(*whole.next(), *upper.next()));
  }
}

// Samples that are their own index, except one that cannot be read.
class Flawed final : public Dataset {
 public:
  Flawed(std::size_t count, std::size_t bad) : bad_(bad) {
    info_.channels = 1;
    info_.train_count = info_.test_count = count;
    info_.classes = static_cast<int>(count);
  }
  const DatasetInfo& info() const override { return info_; }
  Status read(Split, std::size_t index, const TransformConfig&, std::uint64_t, Batch& batch,
              std::size_t place) const override {
    if (index == bad_) return fail(ExitCode::kConfig, "this sample is damaged");
    batch.labels[place] = static_cast<std::int64_t>(index);
    return {};
  }

 private:
  DatasetInfo info_;
  std::size_t bad_;
};

TEST(Loader, ASampleThatCannotBeRead_FailsItsMicroBatchAlone) {
  const Flawed flawed(kMicroBatches * kSamples, 7);  // each step is an epoch, so each step has sample 7 once
  for (const int threads : {1, 3}) {
    Loader loader(flawed, config(threads));
    loader.start(0, range(0, kMicroBatches));
    for (std::uint64_t step = 0; step < 5; ++step) {
      int failed = 0;
      for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
        const Result<Batch> batch = loader.next();
        if (!batch) {
          EXPECT_EQ(batch.error().what, "this sample is damaged");
          ++failed;
          continue;
        }
        EXPECT_EQ(batch->step, step);
        EXPECT_EQ(batch->micro_batch, micro_batch);
        EXPECT_TRUE(std::ranges::equal(batch->labels, batch->samples));
      }
      EXPECT_EQ(failed, 1);
    }
  }
}

// Reads of sample 7 wait for release().
class Hanging final : public Dataset {
 public:
  const DatasetInfo& info() const override { return flawless_.info(); }
  Status read(Split split, std::size_t index, const TransformConfig& transform, std::uint64_t key,
              Batch& batch, std::size_t place) const override {
    if (index == 7) released_.wait(false);
    return flawless_.read(split, index, transform, key, batch, place);
  }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  static constexpr std::size_t kCount = std::size_t{kMicroBatches} * kSamples;
  const Flawed flawless_{kCount, kCount};
  std::atomic<bool> released_ = false;
};

TEST(Loader, AReadThatHangs_IsWaitedForInPieces_AndNothingIsLost) {
  Hanging hanging;
  Loader loader(hanging, config(2));
  loader.start(0, range(0, kMicroBatches));
  int came = 0;
  for (int pieces = 0; pieces < 3;) {
    const Result<Batch> batch = loader.next(std::chrono::milliseconds(50));
    if (batch) {
      EXPECT_EQ(batch->micro_batch, came++);
      pieces = 0;
      continue;
    }
    EXPECT_EQ(batch.error().kind, ErrorKind::kNotYet);
    EXPECT_NE(batch.error().what.find(str("micro-batch ", came, " of step 0")), std::string::npos)
        << batch.error().line();
    ++pieces;
  }
  hanging.release();
  for (; came < kMicroBatches; ++came) EXPECT_EQ(loader.next()->micro_batch, came);
}

class TooLarge final : public Dataset {
 public:
  const DatasetInfo& info() const override { return dataset().info(); }
  Status read(Split, std::size_t, const TransformConfig&, std::uint64_t, Batch&, std::size_t) const override {
    throw std::bad_alloc();
  }
};

TEST(Loader, TooLittleMemoryIsAnError_InAThreadToo) {
  const TooLarge large;
  for (const int threads : {0, 2}) {
    Loader loader(large, config(threads));
    loader.start(0, range(0, 2));
    const auto batch = loader.next();
    ASSERT_FALSE(batch);
    EXPECT_NE(batch.error().line().find("not enough memory"), std::string::npos) << batch.error().line();
  }
}

}  // namespace
}  // namespace rekindle::data
