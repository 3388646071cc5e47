#include <gtest/gtest.h>

#include <sys/stat.h>
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include "../temporary_directory.hpp"
#include "base/background.hpp"
#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/network.hpp"
#include "base/random.hpp"
#include "base/refused_peers.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;

struct Scratch {
  TemporaryDirectory directory;
  fs::path path = directory.path();
};

TEST(Duration, NeedsAUnit) {
  EXPECT_EQ(parse_duration("10min")->count(), 600000);
  EXPECT_EQ(parse_duration("500ms")->count(), 500);
  EXPECT_EQ(parse_duration("1.5h")->count(), 5400000);
  EXPECT_EQ(parse_duration("10m")->count(), 600000);
  EXPECT_EQ(parse_duration("3sec")->count(), 3000);
  EXPECT_EQ(parse_duration("1h30m")->count(), 5400000);
  EXPECT_EQ(parse_duration("1d 2h 3min 4s 5ms")->count(), 93784005);
  EXPECT_EQ(parse_duration("10 min")->count(), 600000);
  EXPECT_EQ(parse_duration("0s")->count(), 0);
  EXPECT_EQ(parse_duration("10").error().line(), "'10' has no unit: write 10s, 10min or 10h");
  EXPECT_EQ(parse_duration("--wait", "2s")->count(), 2000);
  EXPECT_EQ(parse_duration("--wait", "10").error().line(),
            "--wait '10' has no unit: write 10s, 10min or 10h");
  for (const char* wrong : {"10", "", "min", "-3s", "nan", "1e300d", "1h30", "30m1h", "1m2m", "1e3s", "1h-5m",
                            "inf s", "99999999999999h"}) {
    auto parsed = parse_duration(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, ExitCode::kUsage);
  }
  EXPECT_EQ(format_duration(std::chrono::milliseconds(3725000)), "1h 2min");
  EXPECT_EQ(format_duration(std::chrono::minutes(10)), "10min");
  EXPECT_EQ(format_duration(std::chrono::hours(48)), "2d");
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

TEST(Files, AReplacedFile_StaysShared) {
  const Scratch scratch;
  const auto mode_after = [&](mode_t before, unsigned asked = 0) {
    const FilePath file = FilePath::below(scratch.path, Trust::kOwn, "status.json");
    EXPECT_TRUE(replace_file_quickly(file, "one"));
    EXPECT_EQ(::chmod(file.path().c_str(), before), 0);
    EXPECT_TRUE(replace_file(file, "two", asked));
    EXPECT_TRUE(replace_file(file, "three", asked));
    const mode_t mode = look_at(file).value()->st_mode & 0777;
    EXPECT_TRUE(remove_file(file));
    return mode;
  };
  EXPECT_EQ(mode_after(0600), 0600U);
  EXPECT_EQ(mode_after(0640), 0640U);
  EXPECT_EQ(mode_after(0644), 0644U);
  EXPECT_EQ(mode_after(0666), 0644U) << "a run refuses what others can change";
  EXPECT_EQ(mode_after(0400), 0400U);
  EXPECT_EQ(mode_after(0644, 0600), 0600U) << "a secret";
}

TEST(Files, AFileInPlaceOfALink_HasTheModeOfANewOne) {
  const Scratch scratch;
  ASSERT_TRUE(replace_file(scratch.path / "target", "one", 0600));
  fs::create_symlink(scratch.path / "target", scratch.path / "link");
  ASSERT_TRUE(replace_file(scratch.path / "link", "two"));
  const mode_t mask = ::umask(022);
  ::umask(mask);
  EXPECT_EQ(look_at(scratch.path / "link").value()->st_mode & 0777, 0644 & ~mask);
}

TEST(Files, ExclusiveCreationHasOneWinner) {
  Scratch scratch;
  EXPECT_TRUE(*create_exclusively(scratch.path / "0001", "first"));
  EXPECT_FALSE(*create_exclusively(scratch.path / "0001", "second"));
  EXPECT_EQ(*read_text(scratch.path / "0001"), "first");
}

TEST(Files, APipe_IsAnErrorAndNotWaitedFor) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo((scratch.path / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_text(scratch.path / "pipe"));
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

TEST(Network, InterfacesAreNamedAsNcclNamesThem) {
  const std::vector<Interface> there{
      {"lo", "127.0.0.1", true}, {"eth10", "10.0.0.10"}, {"eth1", "10.0.0.1"}, {"ib0", "10.1.0.1"}};
  const auto choose = [&](const std::string& wanted) {
    const auto address = choose_address(there, wanted);
    return address ? *address : "none";
  };
  EXPECT_EQ(choose(""), "127.0.0.1");
  EXPECT_EQ(choose("eth1"), "10.0.0.1");  // not eth10, which is first in the list
  EXPECT_EQ(choose("eth"), "10.0.0.10");
  EXPECT_EQ(choose("wlan,ib"), "10.1.0.1");
  EXPECT_EQ(choose("=ib"), "none");
  EXPECT_EQ(choose("=ib0"), "10.1.0.1");
  EXPECT_EQ(choose("^eth,docker"), "10.1.0.1");  // never the loopback
  EXPECT_EQ(choose("^eth,ib"), "none");
  EXPECT_EQ(choose("10.1.0.1"), "10.1.0.1");
  EXPECT_EQ(choose("10.1.0.2"), "none");
  for (const char* wanted : {"10.1.0.1", "ib", "=ib0"})
    EXPECT_EQ(choose_interface(there, wanted)->name, "ib0") << wanted;
}

TEST(Network, PortRanges) {
  EXPECT_EQ(parse_port_range("")->first, 0);
  EXPECT_EQ(parse_port_range("7")->last, 7);
  EXPECT_EQ(parse_port_range("20000-20100")->last, 20100);
  for (const char* wrong : {"0", "9-8", "1-65536", "x", "1-", "-1", "1-2-3"})
    EXPECT_FALSE(parse_port_range(wrong)) << wrong;
}

TEST(RefusedPeers, OneLineASourceAndReasonInTenSeconds) {
  RefusedPeerLog log("the port");
  using std::chrono::milliseconds;
  const auto first = log.line("10.0.0.7", "rubbish", milliseconds(0));
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, "a connection from 10.0.0.7 to the port was turned away: rubbish");
  EXPECT_FALSE(log.line("10.0.0.7", "rubbish", milliseconds(5000)));
  EXPECT_FALSE(log.line("10.0.0.7", "rubbish", milliseconds(9999)));
  EXPECT_TRUE(log.line("10.0.0.7", "silence", milliseconds(9999)));
  EXPECT_TRUE(log.line("10.0.0.8", "rubbish", milliseconds(9999)));
  EXPECT_EQ(*log.line("10.0.0.7", "rubbish", milliseconds(10000)), *first + " (2 more times before)");
}

TEST(RefusedPeers, ManyAddressesShareALine) {
  RefusedPeerLog log("the port");
  int lines = 0;
  for (int i = 0; i < 10000; ++i)
    lines += log.line(str(i), "rubbish", std::chrono::milliseconds(i / 100)) ? 1 : 0;
  EXPECT_LT(lines, 300);
}

TEST(Nearest, FindsTheTypo) {
  const std::vector<std::string> names{"batch-size", "micro-batches", "steps"};
  EXPECT_EQ(nearest_name("bacth-size", names), "batch-size");
  EXPECT_EQ(nearest_name("micro-batchs", names), "micro-batches");
  EXPECT_EQ(did_you_mean("step", names), "did you mean steps?");
}

TEST(Nearest, GuessesNothingThatIsNotNear) {
  const std::vector<std::string> names{"lost-after", "lr", "local"};
  EXPECT_EQ(nearest_name("log-interval", names), "");
  EXPECT_EQ(nearest_name("xy", names), "");
  EXPECT_EQ(did_you_mean("resume", names), "there is: lost-after, lr, local");
}

TEST(Bytes, InUnitsThatFit) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1), "1 byte");
  EXPECT_EQ(format_bytes(999), "999 bytes");
  EXPECT_EQ(format_bytes(4'799'528), "4.8 MB");
  EXPECT_EQ(format_bytes(17'300'000), "17.3 MB");
  EXPECT_EQ(format_bytes(531'200'000), "531 MB");
  EXPECT_EQ(format_bytes(999'999'999), "1.00 GB");
  EXPECT_EQ(format_bytes(1'062'000'000), "1.06 GB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "18.4 EB");
}

TEST(Background, DoesEverythingInOrderAndFlushWaitsForIt) {
  std::vector<int> done;
  {
    Background later;
    for (int i = 0; i < 100; ++i) later.add([&done, i] { done.push_back(i); });
    later.flush();
    EXPECT_EQ(done.size(), 100U);
    later.add([&done] { done.push_back(100); });
  }
  EXPECT_EQ(done.size(), 101U);
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

}  // namespace
}  // namespace rekindle
