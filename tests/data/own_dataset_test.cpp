// Data sets of other programs: what they say and what they write is checked.
#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "data/loader.hpp"
#include "data/test_reader.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

constexpr int kContext = 4;

DatasetInfo text_info() {
  return {.kind = "own",
          .samples = SampleKind::kText,
          .context = kContext,
          .classes = 10,
          .train_count = 8,
          .test_count = 8,
          .content_hash = "1"};
}

// Texts of zeros, but for one value of one sample.
class OwnText final : public Dataset {
 public:
  OwnText(std::int64_t token, std::int64_t label) : token_(token), label_(label) {}
  const DatasetInfo& info() const override { return info_; }
  Status read(Split, std::size_t index, const TransformConfig&, std::uint64_t, Batch& batch,
              std::size_t place) const override {
    if (index != 5) return {};
    batch.tokens[place * kContext + 3] = token_;
    batch.labels[place * kContext] = label_;
    return {};
  }

 private:
  const DatasetInfo info_ = text_info();
  const std::int64_t token_, label_;
};

// What reading all samples says, of each split.
std::vector<std::string> errors_of(const Dataset& dataset) {
  std::vector<std::string> errors;
  Loader loader(dataset, {.seed = 1, .micro_batches = 2, .samples = 4, .transform = {}, .threads = 0});
  loader.start(0, {0, 1});
  for (int i = 0; i < 2; ++i)
    if (const auto batch = loader.next(); !batch) {
      EXPECT_EQ(batch.error().kind, ErrorKind::kDamage);
      EXPECT_EQ(batch.error().code, ExitCode::kConfig);
      errors.push_back(batch.error().line());
    }
  TestReader reader(dataset, 1, 0);
  if (const auto batch = reader.read(0, 8); !batch) errors.push_back(batch.error().line());
  return errors;
}

TEST(OwnDataset, AValueThatIsNoClass_NamesTheSample) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(errors_of(OwnText(9, kNoLabel)), Lines());
  const auto both = [](const std::string& rest) { return Lines{"training" + rest, "test" + rest}; };
  EXPECT_EQ(
      errors_of(OwnText(0, 10)),
      both(" sample 5 has label 10, and the data set own has 10 classes: it has to be 0 to 9, or -100"));
  EXPECT_EQ(
      errors_of(OwnText(0, -1)),
      both(" sample 5 has label -1, and the data set own has 10 classes: it has to be 0 to 9, or -100"));
  EXPECT_EQ(errors_of(OwnText(kNoLabel, 0)),
            both(" sample 5 has token -100, and the data set own has 10 classes: it has to be 0 to 9"));
}

// Class 0 is a class as any other: it must not be learned behind the end of a short text.
TEST(OwnDataset, WhatReadLeavesOutOfAText_HasNoLabel_AlsoInABatchThatIsUsedAgain) {
  const OwnText dataset(9, 3);
  const auto expect_left_out = [](const Batch& batch) {
    ASSERT_EQ(batch.labels.size(), batch.samples.size() * kContext);
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      const bool written = batch.samples[i / kContext] == 5;
      EXPECT_EQ(batch.labels[i], written && i % kContext == 0 ? 3 : kNoLabel) << i;
      EXPECT_EQ(batch.tokens[i], written && i % kContext == 3 ? 9 : 0) << i;
    }
  };
  Loader loader(dataset, {.seed = 1, .micro_batches = 2, .samples = 4, .transform = {}, .threads = 0});
  loader.start(0, {0, 1});
  for (int i = 0; i < 4; ++i) {
    auto batch = loader.next();
    ASSERT_TRUE(batch) << batch.error().line();
    expect_left_out(*batch);
    loader.recycle(std::move(*batch));
  }
  const auto tests = TestReader(dataset, 1, 0).read(0, 8);
  ASSERT_TRUE(tests) << tests.error().line();
  expect_left_out(*tests);
}

// Samples that are draws.
class Drawing final : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  Status read(Split, std::size_t, const TransformConfig&, std::uint64_t key, Batch& batch,
              std::size_t place) const override {
    batch.images[place] = Rng(key).unit();
    return {};
  }

 private:
  const DatasetInfo info_{
      .kind = "drawing", .channels = 1, .classes = 1, .train_count = 8, .test_count = 8, .content_hash = "1"};
};

// With one key for all, a data set would draw the same mask for each test sample.
TEST(OwnDataset, TestSamplesDrawDifferentNumbers_AndTheSameOnesInEachBatch) {
  const Drawing dataset;
  for (const int threads : {0, 2}) {
    TestReader reader(dataset, 1, threads);
    const auto all = reader.read(0, 8);
    ASSERT_TRUE(all) << all.error().line();
    EXPECT_EQ(std::set(all->images.begin(), all->images.end()).size(), 8U);
    const auto last = reader.read(5, 3);
    ASSERT_TRUE(last) << last.error().line();
    EXPECT_TRUE(std::equal(last->images.begin(), last->images.end(), all->images.begin() + 5));
  }
}

class Throwing final : public Dataset {
 public:
  explicit Throwing(std::function<void()> act) : act_(std::move(act)) {}
  const DatasetInfo& info() const override { return info_; }
  Status read(Split, std::size_t, const TransformConfig&, std::uint64_t, Batch&, std::size_t) const override {
    act_();
    return {};
  }

 private:
  const DatasetInfo info_ = text_info();
  const std::function<void()> act_;
};

// In a thread, an exception would end the process.
TEST(OwnDataset, ReadThatThrowsAnything_IsOneLineOfADamagedSample) {
  const std::string of = "the data set failed to read the ", hint = ": look at its read()";
  const auto expect = [&](const std::function<void()>& act, const std::string& what) {
    const Throwing dataset(act);
    for (const int threads : {0, 2}) {
      Loader loader(dataset,
                    {.seed = 1, .micro_batches = 2, .samples = 4, .transform = {}, .threads = threads});
      loader.start(0, {0, 1});
      const auto batch = loader.next();
      ASSERT_FALSE(batch);
      EXPECT_EQ(batch.error().kind, ErrorKind::kDamage);
      EXPECT_EQ(batch.error().code, ExitCode::kConfig);
      EXPECT_EQ(batch.error().line(), str(of, "training samples: ", what, hint));
      const auto tests = TestReader(dataset, 1, threads).read(0, 8);
      ASSERT_FALSE(tests);
      EXPECT_EQ(tests.error().line(), str(of, "test samples: ", what, hint));
    }
  };
  expect([] { throw 1; }, "an exception of an unknown type");
  expect([] { throw std::runtime_error("no such row\nfrom a stack of calls"); }, "no such row");
}

class Empty final : public Dataset {
 public:
  explicit Empty(DatasetInfo info) : info_(std::move(info)) {}
  const DatasetInfo& info() const override { return info_; }
  Status read(Split, std::size_t, const TransformConfig&, std::uint64_t, Batch&, std::size_t) const override {
    return {};
  }

 private:
  const DatasetInfo info_;
};

DatasetInfo said;  // by the row's data set
const DatasetRow kText = {"own",
                          "a test",
                          SampleKind::kText,
                          Augment::kOff,
                          [](const auto&, const auto&) -> Result<std::unique_ptr<Dataset>> {
                            return std::make_unique<Empty>(said);
                          },
                          nullptr};
const DatasetRow kThrowing = {"throwing",
                              "a test",
                              SampleKind::kText,
                              Augment::kOff,
                              [](const auto&, const auto&) -> Result<std::unique_ptr<Dataset>> {
                                throw std::runtime_error("no such table\nfrom a stack of calls");
                              },
                              nullptr};

std::string refusal(const DatasetRow& row) {
  const DatasetRow* rows[] = {&row};
  const auto opened = open_dataset(row.name, "/somewhere", {}, rows);
  return opened ? "" : opened.error().line();
}

TEST(OwnDataset, InfoThatDoesNotSuitItsRow_IsRefused) {
  said = text_info();
  EXPECT_EQ(refusal(kText), "");
  const auto with = [](const std::function<void(DatasetInfo&)>& change) {
    said = text_info();
    change(said);
    return refusal(kText);
  };
  const std::string end = ": look at its info()";
  EXPECT_EQ(with([](DatasetInfo& info) { info.samples = SampleKind::kImages; }),
            "the data set own has the samples of images, and its row has those of text" + end);
  EXPECT_EQ(with([](DatasetInfo& info) { info.channels = 3; }),
            "the data set own is text, and has 3 channels" + end);
  EXPECT_EQ(with([](DatasetInfo& info) { info.context = 0; }),
            "the data set own is text with a context of 0" + end);
  EXPECT_EQ(with([](DatasetInfo& info) { info.image_size = 8; }),
            "the data set own is text, and an image size of 8" + end);
  EXPECT_EQ(with([](DatasetInfo& info) { info.classes = 0; }), "the data set own has 0 classes" + end);
  EXPECT_EQ(with([](DatasetInfo& info) { info.train_count = std::size_t{1} << 32; }),
            "the data set own has more than 4294967295 samples" + end);
}

TEST(OwnDataset, OpenThatThrows_IsAnError) {
  EXPECT_EQ(refusal(kThrowing),
            "the data set throwing failed to open /somewhere: no such table: look at its open()");
}

}  // namespace
}  // namespace rekindle::data
