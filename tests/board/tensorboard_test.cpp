#include "board/tensorboard.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "../run/run_directory_fixture.hpp"
#include "board/event_record.hpp"
#include "board/tensorboard_watch.hpp"

namespace rekindle::board {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;

class TensorBoard : public run::RunDirectory {
 protected:
  using Lines = std::vector<std::string>;

  static std::string step(std::uint64_t number, double loss) {
    return nlohmann::json{
        {"step", number}, {"loss", loss}, {"lr", 0.5}, {"step_ms", 9}, {"at", "2026-11-26T12:13:53Z"}}
        .dump();
  }
  static std::string evaluation(std::uint64_t number, double loss) {
    return nlohmann::json{
        {"step", number}, {"test_loss", loss}, {"test_count", 10}, {"at", "2026-11-26T12:13:54Z"}}
        .dump();
  }
  static Lines steps(std::uint64_t from, std::uint64_t to, double loss) {
    Lines lines;
    for (std::uint64_t number = from; number <= to; ++number) {
      lines.push_back(step(number, loss));
      if (number % 10 == 0) lines.push_back(evaluation(number, loss));
    }
    return lines;
  }
  static void give(TensorBoardFiles& files, const Lines& lines) {
    view::MetricsLineReader reader;
    for (const std::string& line : lines) files.on_metrics(*reader.read(line));
    ASSERT_TRUE(files.caught_up(milliseconds(0)));
    ASSERT_TRUE(files.finish());
  }
  // A process that begins with these lines.
  void process(const Lines& lines, const std::string& name = "n1.1", std::uint64_t seconds = 1'000'000'000) {
    TensorBoardFiles files(layout_, {.name = name, .seconds = seconds});
    ASSERT_TRUE(files.begin_metrics());
    give(files, lines);
  }

  static std::vector<std::string> events_in(const FilePath& folder) {
    std::vector<std::string> events;
    const EventFiles files(folder, "test", 0);
    EXPECT_TRUE(files.read([&](std::string_view bytes) { events.emplace_back(bytes); }));
    return events;
  }
  // What TensorBoard shows: by tag and step, in how many values; files in the order of their names.
  std::map<std::string, std::multiset<std::uint64_t>> shown() const {
    std::map<std::string, std::multiset<std::uint64_t>> shown;
    starts_ = 0;
    for (const std::string& bytes : events_in(layout_.tensorboard())) {
      const ReadEvent event = decode(bytes).value();
      if (event.start && starts_++ > 0)
        for (auto& [tag, steps] : shown) steps.erase(steps.lower_bound(event.step), steps.end());
      if (!event.first_tag.empty()) shown[event.first_tag].insert(event.step);
    }
    return shown;
  }
  std::uintmax_t bytes() const {
    std::uintmax_t bytes = 0;
    for (const auto& file : fs::directory_iterator(layout_.tensorboard().path()))
      if (file.is_regular_file()) bytes += file.file_size();
    return bytes;
  }
  static std::multiset<std::uint64_t> numbers(std::uint64_t to, std::uint64_t each = 1) {
    std::multiset<std::uint64_t> all;
    for (std::uint64_t number = each; number <= to; number += each) all.insert(number);
    return all;
  }
  mutable int starts_ = 0;
};

TEST_F(TensorBoard, ALine_HasItsScalars) {
  process({step(1, 0.25), evaluation(1, 0.75)});
  const std::vector<std::string> events = events_in(layout_.tensorboard());
  const double at = 1795695233;  // date -d 2026-11-26T12:13:53Z +%s
  EXPECT_THAT(events, ElementsAre(encode_version(1e9), encode_start({1e9, std::uint64_t{INT64_MAX}}),
                                  encode_scalars({at, 1}, {{"loss", 0.25}, {"lr", 0.5}}),
                                  encode_scalars({at + 1, 1}, {{"test_loss", 0.75}})));
}

TEST_F(TensorBoard, TheNextProcess_WritesOnlyWhatIsNew) {
  process(steps(1, 20, 1));
  const auto before = bytes();
  process(steps(1, 20, 1), "n1.2");
  EXPECT_EQ(bytes(), before);
  process(steps(1, 35, 1), "n1.3");
  EXPECT_EQ(shown()["loss"], numbers(35));
  EXPECT_EQ(shown()["test_loss"], numbers(30, 10));
  EXPECT_EQ(starts_, 2);  // one in each file
}

TEST_F(TensorBoard, AfterARewindThatNoProcessSaw_TheStepsAreTheNewOnes) {
  process(steps(1, 50, 1));
  Lines lines = steps(1, 33, 1);
  for (const std::string& line : steps(34, 40, 2)) lines.push_back(line);
  process(lines, "n1.2");
  EXPECT_EQ(shown()["loss"], numbers(40));
  EXPECT_EQ(shown()["test_loss"], numbers(40, 10));
  EXPECT_EQ(starts_, 3);
  for (std::uint64_t number = 34; number <= 40; ++number)
    EXPECT_THAT(events_in(layout_.tensorboard()),
                Contains(encode_scalars({1795695233, number}, {{"loss", 2}, {"lr", 0.5}})));
  const auto before = bytes();
  process(lines, "n1.3");
  EXPECT_EQ(bytes(), before);
}

TEST_F(TensorBoard, ARewindWithoutNewSteps_ForgetsTheOldOnes) {
  process(steps(1, 50, 1));
  process(steps(1, 15, 1), "n1.2");
  EXPECT_EQ(shown()["loss"], numbers(15));
  EXPECT_EQ(shown()["test_loss"], numbers(10, 10));
  process({}, "n1.3");
  EXPECT_TRUE(shown()["loss"].empty());
}

TEST_F(TensorBoard, RewindsOfALivingProcess_LeaveNoStepTwice) {
  TensorBoardFiles files(layout_, {.name = "n1.1", .seconds = 1});
  ASSERT_TRUE(files.begin_metrics());
  Lines lines = steps(1, 40, 0);
  give(files, lines);
  std::uint64_t last = 40;
  for (int rewind = 1; rewind < 8; ++rewind) {
    const std::uint64_t to = last - static_cast<std::uint64_t>(rewind) * 3;
    std::erase_if(lines, [&](const std::string& line) { return nlohmann::json::parse(line)["step"] > to; });
    ASSERT_TRUE(files.begin_metrics());
    last = to + 11;
    for (const std::string& line : steps(to + 1, last, rewind)) lines.push_back(line);
    give(files, lines);
    ASSERT_EQ(shown()["loss"], numbers(last)) << rewind;
    ASSERT_EQ(shown()["test_loss"], numbers(last / 10 * 10, 10)) << rewind;
  }
}

TEST_F(TensorBoard, ATornFile_IsFollowedByAnother) {
  process(steps(1, 20, 1));
  const fs::path file = fs::directory_iterator(layout_.tensorboard().path())->path();
  for (const std::uintmax_t torn : {1, 15, 30, 200}) {
    fs::resize_file(file, fs::file_size(file) - torn);
    process(steps(1, 20, 1), str("n1.", 10 + torn));
    EXPECT_EQ(shown()["loss"], numbers(20));
    EXPECT_EQ(shown()["test_loss"], numbers(20, 10));
  }
  for (const auto& each : fs::directory_iterator(layout_.tensorboard().path()))
    EXPECT_LE(file.filename(), each.path().filename());
}

TEST_F(TensorBoard, OfAProcessWithALateClock_TheFileIsTheLast) {
  process(steps(1, 20, 1), "n2.1", 2'000'000'000);
  process(steps(1, 30, 1), "n1.1", 1'000'000'000);
  process(steps(1, 25, 1), "n0.1", 5);
  EXPECT_EQ(shown()["loss"], numbers(25));
  std::ofstream((layout_.tensorboard() / "events.out.tfevents.99999999999999999999.x").path()) << "junk";
  process(steps(1, 26, 1), "n0.2", 5);
  EXPECT_EQ(shown()["loss"], numbers(26));
}

TEST_F(TensorBoard, ALateLine_IsLeftOut) {
  const Lines lines = {step(1, 1), step(3, 1), step(2, 1), step(4, 1)};
  process(lines);
  EXPECT_EQ(shown()["loss"], (std::multiset<std::uint64_t>{1, 3, 4}));
  process(lines, "n1.2");
  EXPECT_EQ(shown()["loss"], (std::multiset<std::uint64_t>{1, 3, 4}));
}

TEST_F(TensorBoard, FilesGrowAtMostOnceASecond) {
  TensorBoardFiles files(layout_, {.name = "n1.1", .seconds = 1});
  ASSERT_TRUE(files.begin_metrics());
  view::MetricsLineReader reader;
  std::set<std::uintmax_t> sizes;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    files.on_metrics(*reader.read(step(i, 1)));
    ASSERT_TRUE(files.caught_up(milliseconds(5000 + 30 * i)));
    sizes.insert(bytes());
  }
  EXPECT_EQ(sizes.size(), 3U);
  ASSERT_TRUE(files.finish());
  EXPECT_EQ(shown()["loss"], numbers(100));
}

// A disk that is full for a while, during the first look at a long run.
TEST_F(TensorBoard, WhatCouldNotBeWritten_IsWrittenLater) {
  const fs::path folder = layout_.tensorboard().path();
  TensorBoardWatch watch(layout_);
  ASSERT_TRUE(watch.look());  // it makes its folder when there is something to write
  std::ofstream(folder) << "in the way";
  {
    std::ofstream metrics(layout_.metrics().path()), events(layout_.events().path());
    for (const std::string& line : steps(1, 20'000, 1)) metrics << line << "\n";
    events << R"({"event":"started","at":"2026-11-26T12:00:00Z","step":0})"
           << "\n";
  }
  for (int i = 0; i < 3; ++i) std::ignore = watch.look();
  EXPECT_FALSE(watch.look());
  fs::remove(folder);
  ASSERT_TRUE(watch.finish());
  EXPECT_EQ(shown()["loss"], numbers(20'000));
  EXPECT_EQ(events_in(layout_.tensorboard() / "events").size(), 3U) << "once, behind what begins a file";
}

TEST_F(TensorBoard, AFolderThatIsALink_IsNotWrittenTo) {
  TemporaryDirectory other;
  fs::create_symlink(other.path(), layout_.tensorboard().path());
  TensorBoardFiles files(layout_, {.name = "n1.1", .seconds = 1});
  view::MetricsLineReader reader;
  static_cast<void>(files.begin_metrics());
  files.on_metrics(*reader.read(step(1, 1)));
  EXPECT_FALSE(files.finish());
  EXPECT_TRUE(fs::is_empty(other.path()));
}

TEST_F(TensorBoard, Texts_AreWrittenOnceAndInAscendingSteps) {
  const std::vector<nlohmann::json> lines = {
      {{"event", "started"}, {"at", "2026-11-26T12:00:00.120Z"}, {"step", 0}, {"host", "n1"}},
      {{"event", "saved"}, {"at", "2026-11-26T12:00:01.000Z"}, {"step", 5}},
      {{"event", "recovered"},
       {"at", "2026-11-26T12:00:02.000Z"},
       {"step", 88},
       {"cause", "lost"},
       {"seconds", 1.5}},
      {{"event", "started"}, {"at", "2026-11-26T12:00:03.000Z"}, {"step", 63}},
      {{"event", 5}, {"step", "x"}}};
  for (const char* name : {"n1.1", "n1.2"}) {
    TensorBoardFiles files(layout_, {.name = name, .seconds = 1});
    ASSERT_TRUE(files.begin_events());
    for (const nlohmann::json& line : lines) files.on_event(line);
    ASSERT_TRUE(files.finish());
  }
  const std::vector<std::string> events = events_in(layout_.tensorboard() / "events");
  const double at = 1795694400;
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[2], encode_text({at + 0.12, 0}, "events", "**started** after step 0: host n1"));
  EXPECT_EQ(events[3],
            encode_text({at + 2, 88}, "events", "**recovered** after step 88: cause lost, seconds 1.5"));
  EXPECT_EQ(events[4], encode_text({at + 3, 89}, "events", "**started** after step 63"));
}

TEST(TensorBoardTime, OfAnyText_IsATimeOrNone) {
  EXPECT_EQ(seconds_of("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(seconds_of("1970-01-01T00:00:00.250Z"), 0.25);
  for (const char* text :
       {"", "Z", "2026-11-26", "2026-13-26T12:13:53Z", "2026-11-26T12:13:53", "xxxx-xx-xxTxx:xx:xxZ"})
    EXPECT_EQ(seconds_of(text), std::nullopt) << text;
}

}  // namespace
}  // namespace rekindle::board
