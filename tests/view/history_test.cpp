#include <gmock/gmock.h>
#include <malloc.h>

#include "history_fixture.hpp"

namespace rekindle::view {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(HistoryOfARun, OfFewSteps_AllValuesAreThere) {
  append(R"({"loss":2.3161680698394775,"lr":1.0,"step":1})"
         "\n"
         R"({"loss":null,"lr":1.0,"step":2,"voided":true})"
         "\n"
         R"({"step":2,"test_loss":0.25,"test_count":10})"
         "\n"
         R"({"loss":1e999,"step":3})"
         "\nNaN\n{}\n[1]\n"
         R"({"loss":1.25,"lr":"high","step":4,"generation":"t1.g1"})"
         "\n"
         R"({"loss":9,"st)");
  read_all(history_);
  EXPECT_THAT(history_.names(), ElementsAre("loss", "lr", "test_count", "test_loss"));
  EXPECT_EQ(curves(history_), nlohmann::json::parse(R"({"from":0,"to":4,"last":4,"exact":true,"curves":{
      "loss":{"step":[1,4],"value":[2.31617,1.25]},
      "lr":{"step":[1,2],"value":[1,1]},
      "test_loss":{"step":[2],"value":[0.25]}}})"));
  append(R"(ep":5})"
         "\n");
  read_all(history_);
  EXPECT_EQ(curves(history_)["curves"]["loss"]["step"], nlohmann::json({1, 4, 5}));
}

TEST_F(HistoryOfARun, WithoutAFile_IsEmpty) {
  read_all(history_);
  EXPECT_THAT(history_.names(), IsEmpty());
  EXPECT_EQ(curves(history_)["curves"], nlohmann::json::object());
}

TEST_F(HistoryOfARun, OfManySteps_EachRangeHasItsValuesOnce) {
  add_steps(1, 20000, 12345);
  read_all(history_);
  expect_right(history_, {}, 1000);
  for (const std::size_t points : {1, 2, 10, 300, 1000, 4096}) {
    expect_right(history_, {}, points);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t a = random_() % 20002, b = random_() % 20002;
      expect_right(history_, {.from = std::min(a, b), .to = std::max(a, b)}, points);
    }
    // Around the limit of exact values, at borders of buckets and beside them.
    for (const std::uint64_t from : {4095, 4096, 4097})
      for (const std::uint64_t more : {0, 1, 2}) {
        expect_right(history_, {.from = from, .to = from + points - 2 + more}, points);
        expect_right(history_, {.from = from, .to = from + 8 * points + more}, points);
      }
  }
}

TEST_F(HistoryOfARun, RareValues_StayExactAmongManySteps) {
  add_steps(1, 20000);
  for (std::uint64_t step = 1000; step <= 20000; step += 1000)
    append(nlohmann::json{{"step", step}, {"test_loss", step / 8}}.dump() + "\n");
  read_all(history_);
  const nlohmann::json answer = curves(history_);
  EXPECT_FALSE(answer["exact"]);
  EXPECT_EQ(answer["curves"]["test_loss"]["value"].size(), 20U);
  EXPECT_EQ(answer["curves"]["test_loss"]["value"][19], 2500);
}

TEST_F(HistoryOfARun, LinesInAnyOrder_AreFoundAgain) {
  std::vector<std::uint64_t> steps(12000);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = i + 1;
  for (std::size_t i = 0; i + 50 < steps.size(); i += 37) std::swap(steps[i], steps[i + random_() % 50]);
  std::string text;
  for (const std::uint64_t step : steps)
    text += line(step, values_[step] = 1 + 1.0 / static_cast<double>(step));
  append(text);
  read_all(history_);
  expect_right(history_, {}, 1000);
  expect_right(history_, {.from = 5000, .to = 5999}, 1000);
  expect_right(history_, {.from = 3001, .to = 11111}, 500);
}

TEST_F(HistoryOfARun, ARewind_LeavesNothingLater) {
  add_steps(1, 9000, 8000);
  read_all(history_);
  for (const std::uint64_t step : {7777, 5000, 40, 0}) {
    rewind(step);
    read_all(history_);
    expect_right(history_, {}, 1000);
    expect_as_from_scratch(history_);
    add_steps(step + 1, step + 600);
    read_all(history_);
    expect_right(history_, {}, 1000);
    expect_as_from_scratch(history_);
  }
}

TEST_F(HistoryOfARun, ARewindThatNobodySaw_IsFound) {
  add_steps(1, 3000, 2500);
  read_all(history_);
  rewind(2000);
  add_steps(2001, 9000);  // the file is longer than before
  read_all(history_);
  expect_right(history_, {}, 1000);
  expect_as_from_scratch(history_);
}

TEST_F(HistoryOfARun, ARewindBetweenTwoSlices_IsFound) {
  add_steps(1, 40000, 100);
  EXPECT_TRUE(history_.read_new(1).value());
  rewind(50);
  add_steps(51, 45000, 30000);
  read_all(history_);
  expect_right(history_, {}, 1000);
  expect_as_from_scratch(history_);
  EXPECT_FALSE(history_.take_news().rewound_to);
}

TEST_F(HistoryOfARun, ARewindOfAFileInNoOrder_IsFound) {
  add_steps(1, 500);
  const std::string late = line(1000, values_[1000] = 3);
  append(late);
  add_steps(501, 800);
  read_all(history_);
  rewind(700);  // writes another file
  read_all(history_);
  expect_right(history_, {}, 1000);
  expect_as_from_scratch(history_);
}

TEST_F(HistoryOfARun, News_AreWhatCameSince) {
  add_steps(1, 100);
  read_all(history_);
  EXPECT_EQ(history_.take_news().points, nlohmann::json::object());
  add(101, 0.125);
  add(102, 2.3161680698394775);
  read_all(history_);
  const News news = history_.take_news();
  EXPECT_EQ(news.points,
            nlohmann::json::parse(R"({"loss":[[101,0.125],[102,2.31617]],"lr":[[101,0.5],[102,0.5]]})"));
  EXPECT_FALSE(news.rewound_to);
  EXPECT_FALSE(news.incomplete);
  EXPECT_EQ(history_.take_news().points, nlohmann::json::object());
}

TEST_F(HistoryOfARun, WhoFollowsTheNews_HasTheFile) {
  add_steps(1, 500);
  read_all(history_);
  Values seen = rounded();
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t last = values_.rbegin()->first;
    switch (random_() % 3) {
      case 0:
        if (last > 20) rewind(last - random_() % 20);
        break;
      case 1:
        add_steps(last + 1, last + 1 + random_() % 30);
        break;
      default:
        read_all(history_);
    }
    if (random_() % 2 == 0) {
      read_all(history_);
      const News news = history_.take_news();
      ASSERT_FALSE(news.incomplete);
      if (news.rewound_to) {
        EXPECT_LE(last, *news.rewound_to + 200);
      }
      if (!news.points.empty()) {
        EXPECT_LE(news.points["loss"].size(), 500U);
      }
      apply(seen, news);
      ASSERT_EQ(seen, rounded()) << i;
    }
  }
}

TEST_F(HistoryOfARun, NewsThatNobodyTakes_AreTheNewest) {
  read_all(history_);
  add_steps(1, 10000);
  read_all(history_);
  const News news = history_.take_news();
  EXPECT_TRUE(news.incomplete);
  ASSERT_EQ(news.points["loss"].size(), History::kMostNews);
  EXPECT_EQ(news.points["loss"].back()[0], 10000);
  EXPECT_EQ(news.points["loss"].front()[0], 10001 - History::kMostNews);
}

TEST_F(HistoryOfARun, ManyAndLongNames_AreLeftOut) {
  nlohmann::json line = {{"step", 1}, {std::string(History::kMostNameBytes + 1, 'x'), 1}};
  for (int i = 0; i < 1000; ++i) line["n" + std::to_string(i)] = i;
  append(line.dump() + "\n");
  read_all(history_);
  EXPECT_EQ(history_.names().size(), History::kMostNames);
}

TEST_F(HistoryOfARun, CloseValues_KeepTheDigitsThatAPictureShows) {
  for (std::uint64_t step = 1; step <= 3; ++step)
    append(nlohmann::json{{"loss", 1000 + static_cast<double>(step) / (1 << 20)}, {"step", step}}.dump() +
           "\n");
  append(R"({"step":4,"test_loss":1234567})"
         "\n");
  read_all(history_);
  const nlohmann::json answer = curves(history_)["curves"];
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(answer["loss"]["value"][i].get<double>(), 1000 + static_cast<double>(i + 1) / (1 << 20),
                1e-9);
  EXPECT_EQ(answer["test_loss"]["value"].dump(), "[1234567]");
}

TEST_F(HistoryOfARun, MoreSteps_TakeNoMoreMemory) {
  const auto used = [] {
    const auto info = ::mallinfo2();  // all zero with a sanitizer
    return info.uordblks + info.hblkhd;
  };
  std::uint64_t step = 0;
  const auto growth_of = [&](std::uint64_t steps) {
    std::string text;
    while (step < steps) text += str(R"({"loss":)", ++step % 97, R"(,"lr":0.5,"step":)", step, "}\n");
    append(text);
    text = {};
    const std::size_t before = used();
    History history(layout_);
    read_all(history);
    EXPECT_EQ(history.last_step(), steps);
    return static_cast<std::int64_t>(used() - before);
  };
  const std::int64_t once = growth_of(600'000), twice = growth_of(1'200'000);
  EXPECT_LT(once, 1 << 20);
  EXPECT_LT(twice, once + (1 << 16));
}

}  // namespace
}  // namespace rekindle::view
