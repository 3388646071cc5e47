#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>
#include <numeric>

#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;

struct Scratch {
  fs::path path = fs::temp_directory_path() / str("rekindle-base-", ::getpid());
  Scratch() { fs::create_directories(path); }
  ~Scratch() { fs::remove_all(path); }
};

TEST(Duration, NeedsAUnit) {
  EXPECT_EQ(parse_duration("10min")->count(), 600000);
  EXPECT_EQ(parse_duration("500ms")->count(), 500);
  EXPECT_EQ(parse_duration("1.5h")->count(), 5400000);
  for (const char* wrong : {"10", "", "min", "-3s", "10 min", "3sec", "nan", "1e300d"}) {
    auto parsed = parse_duration(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, ExitCode::kUsage);
  }
  EXPECT_EQ(format_duration(std::chrono::milliseconds(3725000)), "1h 2min");
}

TEST(Hash, IsXxh3) {
  // Published value of XXH3-128 of the empty input, seed 0.
  EXPECT_EQ(hash128({}).hex(), "99aa06d3014798d86001c324468d497f");
  std::vector<std::byte> data(100000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  Hasher128 pieces;
  pieces.update(std::span(data).first(12345));
  pieces.update(std::span(data).subspan(12345));
  EXPECT_EQ(pieces.digest(), hash128(data));
}

TEST(Files, ReplaceIsAllOrNothing) {
  Scratch scratch;
  const fs::path file = scratch.path / "a.json";
  ASSERT_TRUE(replace_file(file, "one"));
  ASSERT_TRUE(replace_file(file, "two"));
  EXPECT_EQ(*read_text(file), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path), {}), 1);
  EXPECT_FALSE(replace_file(scratch.path / "missing" / "b", "x"));
}

TEST(Files, ExclusiveCreationHasOneWinner) {
  Scratch scratch;
  EXPECT_TRUE(*create_exclusively(scratch.path / "0001", "first"));
  EXPECT_FALSE(*create_exclusively(scratch.path / "0001", "second"));
  EXPECT_EQ(*read_text(scratch.path / "0001"), "first");
}

TEST(Random, StreamsOfOneSeedDiffer) {
  EXPECT_NE(stream_key(1, Draws::kDropout, {0, 1}), stream_key(1, Draws::kDropout, {1, 0}));
  EXPECT_NE(stream_key(1, Draws::kDropout, {0}), stream_key(1, Draws::kAugment, {0}));
  EXPECT_NE(stream_key(1, Draws::kDropout), stream_key(2, Draws::kDropout));
  Rng rng(stream_key(1, Draws::kOrder));
  std::array<int, 3> seen{};
  for (int i = 0; i < 3000; ++i) ++seen[rng.below(3)];
  for (const int n : seen) EXPECT_NEAR(n, 1000, 150);
}

TEST(Nearest, FindsTheTypo) {
  const std::vector<std::string> names{"batch-size", "leaves", "steps"};
  EXPECT_EQ(nearest_name("bacth-size", names), "batch-size");
  EXPECT_EQ(nearest_name("leafs", names), "leaves");
}

}  // namespace
}  // namespace rekindle
