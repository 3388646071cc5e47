#include "data/test_reader.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "base/text.hpp"
#include "data/transform.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

constexpr int kThreads[] = {0, 1, 3};

TEST(TestReader, ReadsTheTestImagesInOrderNeverAugmented) {
  const auto dataset = made("cifar10", 31);
  for (const int threads : kThreads) {
    TestReader reader(*dataset, 32, threads);
    for (const std::size_t first : {std::size_t{2}, std::size_t{0}}) {
      const Batch batch = *reader.read(first, 4);
      std::vector<std::size_t> samples(4);
      std::iota(samples.begin(), samples.end(), first);
      EXPECT_EQ(batch.samples, samples);
      std::vector<float> image(3072);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(batch.labels[i], raw(*dataset).label(Split::kTest, first + i));
        transform(Preprocessing::kImageNet, {32, Augment::kOff}, raw(*dataset).image(Split::kTest, first + i),
                  99, image);
        EXPECT_TRUE(std::equal(image.begin(), image.end(), batch.images.begin() + i * 3072));
      }
    }
  }
}

// Samples that are their own index.
class Numbers : public Dataset {
 public:
  Numbers() {
    info_.channels = 1;
    info_.test_count = 1000;
    info_.classes = 1000;
  }
  const DatasetInfo& info() const override { return info_; }
  Status read(Split, std::size_t index, const TransformConfig&, std::uint64_t, Batch& batch,
              std::size_t place) const override {
    batch.labels[place] = static_cast<std::int64_t>(index);
    return {};
  }

 private:
  DatasetInfo info_;
};

// No sample is read before as many are being read as there are threads.
class Together final : public Numbers {
 public:
  explicit Together(std::size_t threads) : threads_(threads) {}
  Status read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key, Batch& batch,
              std::size_t place) const override {
    {
      std::unique_lock lock(mutex_);
      readers_.insert(std::this_thread::get_id());
      all_.notify_all();
      if (!all_.wait_for(lock, std::chrono::minutes(1), [&] { return readers_.size() == threads_; }))
        return fail("nobody else reads");
    }
    return Numbers::read(split, index, config, key, batch, place);
  }

 private:
  const std::size_t threads_;
  mutable std::mutex mutex_;
  mutable std::condition_variable all_;
  mutable std::set<std::thread::id> readers_;
};

TEST(TestReader, AllThreadsReadAtOnce) {
  const Together together(3);
  TestReader reader(together, 28, 3);
  const auto batch = reader.read(0, 4);
  ASSERT_TRUE(batch) << batch.error().line();
  EXPECT_EQ(batch->labels, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

// Reads of sample 2 wait for release().
class Hanging final : public Numbers {
 public:
  Status read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key, Batch& batch,
              std::size_t place) const override {
    if (index == 2) {
      entered_ = true;
      entered_.notify_all();
      released_.wait(false);
    }
    return Numbers::read(split, index, config, key, batch, place);
  }
  void wait_until_entered() const { entered_.wait(false); }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  std::atomic<bool> released_ = false;
  mutable std::atomic<bool> entered_ = false;
};

TEST(TestReader, AReadThatHangs_IsWaitedForInPieces_AndNothingIsLost) {
  Hanging hanging;
  TestReader reader(hanging, 28, 2);
  for (int pieces = 0; pieces < 3; ++pieces) {
    const auto late = reader.read(0, 4, std::chrono::milliseconds(pieces));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind, ErrorKind::kNotYet);
    EXPECT_EQ(late.error().what, "test samples 0 to 3 are not read yet");
    hanging.wait_until_entered();
  }
  const auto other = reader.read(4, 4, std::chrono::milliseconds(1));
  ASSERT_FALSE(other) << "its memory is still being written";
  EXPECT_EQ(other.error().kind, ErrorKind::kNotYet);
  EXPECT_FALSE(reader.read(0, 4, std::chrono::milliseconds(1)));
  hanging.release();
  EXPECT_EQ(reader.read(0, 4)->labels, (std::vector<std::int64_t>{0, 1, 2, 3}))
      << "that was given up meanwhile";
  EXPECT_EQ(reader.read(4, 4)->labels, (std::vector<std::int64_t>{4, 5, 6, 7}));
}

TEST(TestReader, BatchesOfManySizes_AreComplete) {
  const Numbers numbers;
  for (const int threads : kThreads) {
    TestReader reader(numbers, 28, threads);
    for (std::size_t count = 1; count < 200; ++count) {
      const auto batch = reader.read(count, count);
      ASSERT_TRUE(batch) << batch.error().line();
      std::vector<std::int64_t> labels(count);
      std::iota(labels.begin(), labels.end(), static_cast<std::int64_t>(count));
      ASSERT_EQ(batch->labels, labels);
    }
  }
}

class Flawed final : public Numbers {
 public:
  Status read(Split split, std::size_t index, const TransformConfig& config, std::uint64_t key, Batch& batch,
              std::size_t place) const override {
    if (index == 500) throw std::bad_alloc();
    if (index % 10 == 7) return fail(ExitCode::kConfig, str("sample ", index, " is damaged"));
    return Numbers::read(split, index, config, key, batch, place);
  }
};

TEST(TestReader, TheErrorIsThatOfTheFirstSampleThatCannotBeRead) {
  const Flawed flawed;
  for (const int threads : kThreads) {
    TestReader reader(flawed, 28, threads);
    for (int turn = 0; turn < 50; ++turn) {
      const auto failed = reader.read(15, 40);
      ASSERT_FALSE(failed);
      ASSERT_EQ(failed.error().what, "sample 17 is damaged");
      ASSERT_TRUE(reader.read(18, 9));
    }
    const auto too_large = reader.read(498, 5);
    ASSERT_FALSE(too_large);
    EXPECT_NE(too_large.error().what.find("not enough memory"), std::string::npos) << too_large.error().what;
  }
}

#ifdef __has_feature  // clang's
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !HAS_FEATURE(address_sanitizer)  // they end the process, without bad_alloc
TEST(TestReader, ABatchThatIsTooLargeForTheMemory_IsAnErrorWithAWayOut) {
  const Numbers numbers;
  TestReader reader(numbers, 28, 1);
  const auto too_large = reader.read(0, std::size_t{1} << 45);
  ASSERT_FALSE(too_large);
  EXPECT_NE(too_large.error().line().find("a smaller --batch-size"), std::string::npos)
      << too_large.error().line();
  EXPECT_TRUE(reader.read(0, 5));
}
#endif

}  // namespace
}  // namespace rekindle::data
