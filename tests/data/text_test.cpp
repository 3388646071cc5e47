// The data set "text": its files, its splits and its samples.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <numeric>

#include "base/hash.hpp"
#include "data/loader.hpp"
#include "data/test_reader.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

// Bytes whose neighbours differ, so that a shift of one byte is noticed.
std::string counting(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  return text;
}

std::unique_ptr<Dataset> opened(const fs::path& path, int context) {
  auto dataset = open_dataset("text", path, {.context = context});
  EXPECT_TRUE(dataset) << dataset.error().line();
  return dataset ? std::move(*dataset) : nullptr;
}

std::unique_ptr<Dataset> text_of(const std::string& bytes, int context) {
  const Scratch scratch;
  put(scratch.path / "a", bytes);
  return opened(scratch.path / "a", context);
}

std::vector<std::int64_t> tokens_of(const std::string& bytes, std::size_t begin, std::size_t count) {
  std::vector<std::int64_t> tokens;
  for (std::size_t i = begin; i < begin + count; ++i)
    tokens.push_back(static_cast<unsigned char>(bytes.at(i)));
  return tokens;
}

Batch sample(const Dataset& dataset, Split split, std::size_t index) {
  Batch batch;
  make_room(batch, dataset.info(), {}, 1);
  EXPECT_TRUE(dataset.read(split, index, {}, 0, batch, 0));
  return batch;
}

void expect_refused(const fs::path& path, const std::string& words, int context = 4) {
  const auto dataset = open_dataset("text", path, {.context = context});
  ASSERT_FALSE(dataset) << "opened although: " << words;
  const Error& error = dataset.error();
  EXPECT_EQ(error.code, ExitCode::kConfig) << error.line();
  EXPECT_NE(error.line().find(words), std::string::npos) << error.line() << "\nhas no: " << words;
  EXPECT_NE(error.line().find(path.string()), std::string::npos) << error.line();
  EXPECT_FALSE(error.hint.empty()) << error.line();
  EXPECT_EQ(error.line().find('\n'), std::string::npos);
}

TEST(Text, ASampleIsAContextAndTheSameBytesOneFurtherOn) {
  const std::string bytes = counting(1000);
  const auto dataset = text_of(bytes, 8);
  const DatasetInfo& info = dataset->info();
  EXPECT_EQ(info.kind, "text");
  EXPECT_EQ(info.samples, SampleKind::kText);
  EXPECT_EQ(info.classes, 256);
  EXPECT_EQ(info.context, 8);
  EXPECT_EQ(info.channels, 0);
  EXPECT_EQ(info.train_count, 112U);  // (900 - 1) / 8
  EXPECT_EQ(info.test_count, 12U);    // (100 - 1) / 8
  for (std::size_t i = 0; i < info.train_count; ++i) {
    const Batch batch = sample(*dataset, Split::kTrain, i);
    ASSERT_EQ(batch.tokens, tokens_of(bytes, i * 8, 8));
    ASSERT_EQ(batch.labels, tokens_of(bytes, i * 8 + 1, 8));
    ASSERT_TRUE(batch.images.empty());
  }
  for (std::size_t i = 0; i < info.test_count; ++i) {
    const Batch batch = sample(*dataset, Split::kTest, i);
    ASSERT_EQ(batch.tokens, tokens_of(bytes, 900 + i * 8, 8));
    ASSERT_EQ(batch.labels, tokens_of(bytes, 900 + i * 8 + 1, 8));
  }
}

// No label of a training sample may be a test byte, whatever the rounding at the border.
TEST(Text, TheSplitsShareNoByteAtAnyLength) {
  for (std::size_t length = 50; length < 120; ++length) {
    const std::string bytes = counting(length);
    for (int context = 1; context <= 4; ++context) {
      const auto dataset = text_of(bytes, context);
      const std::size_t test = length / 10, train = length - test, t = static_cast<std::size_t>(context);
      const DatasetInfo& info = dataset->info();
      ASSERT_EQ(info.train_count, (train - 1) / t);
      ASSERT_EQ(info.test_count, (test - 1) / t);
      const Batch last_train = sample(*dataset, Split::kTrain, info.train_count - 1);
      ASSERT_EQ(last_train.labels, tokens_of(bytes.substr(0, train), (info.train_count - 1) * t + 1, t));
      const Batch last_test = sample(*dataset, Split::kTest, info.test_count - 1);
      ASSERT_EQ(last_test.labels, tokens_of(bytes, train + (info.test_count - 1) * t + 1, t));
    }
  }
}

TEST(Text, TheShortestTextHasOneContextAndOneByteForTesting) {
  const Scratch scratch;
  put(scratch.path / "a", counting(50));
  EXPECT_EQ(opened(scratch.path / "a", 4)->info().test_count, 1U);
  put(scratch.path / "a", counting(49));
  expect_refused(scratch.path / "a",
                 "has 49 bytes, and the last tenth for testing, 4 bytes, is less than a context and the byte "
                 "after it, 5: use a text of 50 bytes or more");
  put(scratch.path / "a", "x");
  expect_refused(scratch.path / "a", "0 bytes, is less than", 1);
}

TEST(Text, EveryValueOfAByteIsAToken) {
  std::string bytes(2560, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  const auto dataset = text_of(bytes, 255);
  std::vector<std::int64_t> wanted(255);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(sample(*dataset, Split::kTrain, 0).tokens, wanted);
  EXPECT_EQ(sample(*dataset, Split::kTrain, 0).labels.back(), 255);
}

TEST(Text, AFolderIsItsFilesInTheOrderOfTheirNames) {
  const Scratch scratch;
  const std::string bytes = counting(300);
  put(scratch.path / "whole", bytes);
  put(scratch.path / "parts" / "b", bytes.substr(10, 200));  // written first
  put(scratch.path / "parts" / "a", bytes.substr(0, 10));
  put(scratch.path / "parts" / "b2", bytes.substr(210));
  put(scratch.path / "parts" / "inner" / "c", "not read");
  EXPECT_EQ(opened(scratch.path / "parts", 4)->info().content_hash,
            opened(scratch.path / "whole", 4)->info().content_hash);
  fs::rename(scratch.path / "parts" / "a", scratch.path / "parts" / "z");
  EXPECT_NE(opened(scratch.path / "parts", 4)->info().content_hash,
            opened(scratch.path / "whole", 4)->info().content_hash);
}

TEST(Text, FoldersTrainAndVal_AreTheSplits) {
  const Scratch scratch;
  const std::string train = counting(100), test = counting(400).substr(200);
  put(scratch.path / "train" / "b", train.substr(40));
  put(scratch.path / "train" / "a", train.substr(0, 40));
  expect_refused(scratch.path, "has the folder train, but no val");
  put(scratch.path / "valid" / "a", test);
  put(scratch.path / "test" / "a", "not read");
  const auto dataset = opened(scratch.path, 4);
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->info().train_count, 24U);
  EXPECT_EQ(dataset->info().test_count, 49U);
  EXPECT_EQ(sample(*dataset, Split::kTrain, 23).tokens, tokens_of(train, 92, 4));
  EXPECT_EQ(sample(*dataset, Split::kTest, 48).tokens, tokens_of(test, 192, 4));
  const std::string hashed = std::string("\x64\0\0\0\0\0\0\0", 8) + train + test;
  EXPECT_EQ(dataset->info().content_hash, hash128(std::as_bytes(std::span(hashed))).hex());
  put(scratch.path / "valid" / "a", "short");
  EXPECT_EQ(opened(scratch.path, 4)->info().test_count, 1U);
  put(scratch.path / "valid" / "a", "less");
  expect_refused(scratch.path, "valid has 4 bytes, less than a context and the byte after it, 5");
  EXPECT_EQ(dataset->info().warning, "");
}

// A run may have begun with the file, so that the text stays as it was.
TEST(Text, AFileBesideFoldersTrainAndVal_IsTheText_WithAWarning) {
  const Scratch scratch;
  put(scratch.path / "train" / "a", counting(100));
  put(scratch.path / "README.md", counting(300));
  EXPECT_EQ(opened(scratch.path, 4)->info().warning, "");
  put(scratch.path / "val" / "a", counting(100));
  const auto dataset = opened(scratch.path, 4);
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->info().train_count, 67U);
  const std::string begin = "of " + scratch.path.string() + ", only the files are read (README.md",
                    end =
                        "), and the folders train and val are not: if these are the splits, move the files "
                        "elsewhere";
  EXPECT_EQ(dataset->info().warning, begin + end);
  put(scratch.path / "more", counting(10));
  EXPECT_EQ(opened(scratch.path, 4)->info().warning, begin + ", ..." + end);
}

TEST(Text, FilesThatLookLikeSplits_AreNotJoined) {
  const Scratch scratch;
  put(scratch.path / "wiki.train.tokens", counting(300));
  put(scratch.path / "training-notes.txt", counting(300));
  EXPECT_NE(opened(scratch.path, 4), nullptr);
  put(scratch.path / "wiki.valid.tokens", counting(300));
  expect_refused(scratch.path, "training-notes.txt and wiki.valid.tokens, which look like splits");
  fs::rename(scratch.path / "wiki.valid.tokens", scratch.path / "invalid.txt");
  EXPECT_NE(opened(scratch.path, 4), nullptr);
}

TEST(Text, LinksToFilesAreFollowed) {
  const Scratch scratch;
  put(scratch.path / "elsewhere", counting(300));
  fs::create_directory(scratch.path / "folder");
  fs::create_symlink(scratch.path / "elsewhere", scratch.path / "folder" / "a");
  EXPECT_EQ(opened(scratch.path / "folder", 4)->info().train_count, 67U);
  put(scratch.path / "folder" / ".DS_Store", "hidden");
  EXPECT_EQ(opened(scratch.path / "folder", 4)->info().train_count, 67U);
}

TEST(Text, WhatIsNoTextIsRefusedWithAClearLine) {
  const Scratch scratch;
  expect_refused(scratch.path / "nowhere", "no such file or directory");
  expect_refused(scratch.path, "has no files");
  put(scratch.path / "empty", "");
  expect_refused(scratch.path / "empty", "is empty");
  put(scratch.path / "full", counting(300));
  expect_refused(scratch.path, "empty is empty: copy it again, or remove it");
  expect_refused(scratch.path / "full", "a context of 0 tokens", 0);
  expect_refused(scratch.path / "full", "a context of -1 tokens", -1);
  expect_refused("/dev/zero", "is not a regular file");
}

// In a folder too: a pipe would block the reader, and to skip a broken link would change the text in silence.
TEST(Text, AFolderWithAPipeOrABrokenLinkIsRefused) {
  const Scratch scratch;
  put(scratch.path / "a", counting(300));
  ASSERT_EQ(::mkfifo((scratch.path / "pipe").c_str(), 0600), 0);
  expect_refused(scratch.path, "is not a regular file");
  fs::remove(scratch.path / "pipe");
  fs::create_symlink(scratch.path / "nowhere", scratch.path / "link");
  expect_refused(scratch.path, "link");
  fs::remove(scratch.path / "link");
  EXPECT_TRUE(open_dataset("text", scratch.path, {.context = 4}));
}

TEST(Text, AFileThatIsMostlyAHoleIsRefused) {
  const Scratch scratch;
  put(scratch.path / "a", counting(300));
  fs::resize_file(scratch.path / "a", std::uintmax_t{1} << 40);
  expect_refused(scratch.path / "a", "the copy is incomplete");
}

// The hash is part of runs' identities, so it must stay as dataset.hpp defines it.
TEST(Text, TheHashIsThatOfTheTrainingLengthAndAllBytes) {
  const std::string bytes = counting(301);
  const std::string hashed = std::string("\x0f\x01\0\0\0\0\0\0", 8) + bytes;  // 301 - 30 = 0x10f
  EXPECT_EQ(text_of(bytes, 4)->info().content_hash, hash128(std::as_bytes(std::span(hashed))).hex());
  EXPECT_EQ(text_of(bytes, 7)->info().content_hash, text_of(bytes, 4)->info().content_hash);
  for (const std::size_t at : {std::size_t{0}, std::size_t{270}, std::size_t{271}, bytes.size() - 1}) {
    std::string other = bytes;
    other[at] ^= 1;
    EXPECT_NE(text_of(other, 4)->info().content_hash, text_of(bytes, 4)->info().content_hash) << at;
  }
}

TEST(Text, BatchesAreEqualForAnyNumberOfLoaderThreads) {
  const std::string bytes = counting(1000);
  const auto dataset = text_of(bytes, 8);
  constexpr int kMicroBatches = 4, kSamples = 3;
  const SampleOrder order(5, dataset->info().train_count);
  for (const int threads : {1, 2, 4}) {
    Loader loader(*dataset, {.seed = 5,
                             .micro_batches = kMicroBatches,
                             .samples = kSamples,
                             .transform = {},
                             .threads = threads});
    loader.start(2, {1, 2});
    for (std::uint64_t step = 2; step < 20; ++step) {
      for (const std::uint64_t micro_batch : {1, 2}) {
        Batch batch = *loader.next();
        ASSERT_EQ(batch.tokens.size(), kSamples * 8U);
        ASSERT_EQ(batch.labels.size(), kSamples * 8U);
        for (std::size_t i = 0; i < kSamples; ++i) {
          const std::size_t at = order.sample_at((step * kMicroBatches + micro_batch) * kSamples + i);
          ASSERT_EQ(batch.samples[i], at);
          const auto begin = static_cast<std::ptrdiff_t>(i * 8);
          ASSERT_TRUE(
              std::ranges::equal(tokens_of(bytes, at * 8, 8), std::span(batch.tokens).subspan(begin, 8)));
          ASSERT_TRUE(
              std::ranges::equal(tokens_of(bytes, at * 8 + 1, 8), std::span(batch.labels).subspan(begin, 8)));
        }
        if (step % 2 == 0) loader.recycle(std::move(batch));
      }
    }
  }
}

TEST(Text, ATestBatchIsTheTestContextsInOrder) {
  const std::string bytes = counting(1000);
  const auto text = text_of(bytes, 8);
  const Batch batch = *TestReader(*text, 0, 0).read(3, 2);
  EXPECT_EQ(batch.samples, (std::vector<std::size_t>{3, 4}));
  EXPECT_EQ(batch.tokens, tokens_of(bytes, 900 + 24, 16));
  EXPECT_EQ(batch.labels, tokens_of(bytes, 900 + 25, 16));
}

}  // namespace
}  // namespace rekindle::data
