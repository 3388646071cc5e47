// A run whose metrics.jsonl grows and is rewound, and what its curves must be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include "../run/run_directory_fixture.hpp"
#include "run/records.hpp"
#include "view/history.hpp"

namespace rekindle::view {

using Values = std::map<std::uint64_t, double>;

class HistoryOfARun : public run::RunDirectory {
 protected:
  void append(const std::string& text) { std::ofstream(layout_.metrics().path(), std::ios::app) << text; }
  void add(std::uint64_t step, double loss) {
    values_[step] = loss;
    append(line(step, loss));
  }
  // As a run writes it, with a time of its own.
  std::string line(std::uint64_t step, double loss) {
    return nlohmann::json{{"loss", loss}, {"lr", 0.5}, {"step", step}, {"at", std::to_string(++lines_)}}
               .dump() +
           "\n";
  }
  // Steps of a run with a spike.
  void add_steps(std::uint64_t from, std::uint64_t to, std::uint64_t spike = 0) {
    std::string text;
    for (std::uint64_t step = from; step <= to; ++step) {
      values_[step] = step == spike ? 1e6 : std::uniform_real_distribution<double>(1, 2)(random_);
      text += line(step, values_[step]);
    }
    append(text);
  }
  void rewind(std::uint64_t step) {
    ASSERT_TRUE(run::MetricsFile(layout_).rewind(step));
    values_.erase(values_.upper_bound(step), values_.end());
  }
  static void read_all(History& history) {
    for (bool more = true; more;) {
      const auto read = history.read_new(1);
      ASSERT_TRUE(read) << read.error().line();
      more = *read;
    }
  }
  static nlohmann::json curves(const History& history, StepRange range = {}, std::size_t points = 1000) {
    auto answer = history.curves({.names = {"loss", "lr", "test_loss"}, .range = range, .points = points});
    EXPECT_TRUE(answer) << answer.error().line();
    return answer.value_or(nlohmann::json());
  }

  // Each point has exactly the values of the steps since the point before.
  void expect_right(const History& history, StepRange range, std::size_t points) {
    const nlohmann::json answer = curves(history, range, points),
                         loss = answer["curves"].value("loss", R"({"step":[],"value":[]})"_json);
    const auto from = values_.lower_bound(range.from), to = values_.upper_bound(range.to);
    const auto count = static_cast<std::size_t>(std::distance(from, to));
    SCOPED_TRACE(str(range.from, "-", range.to, " in ", points, " points, ", count, " values"));
    ASSERT_EQ(loss.contains("value"), count <= points);
    ASSERT_LE(loss["step"].size(), points);
    auto value = from;
    for (std::size_t i = 0; i < loss["step"].size(); ++i) {
      double low = INFINITY, high = -INFINITY, sum = 0;
      int values = 0;
      std::uint64_t last = 0;
      for (; value != to && value->first <= loss["step"][i]; ++value, ++values) {
        low = std::min(low, value->second), high = std::max(high, value->second), sum += value->second;
        last = value->first;
      }
      ASSERT_EQ(loss["step"][i], last);
      if (count <= points) {
        ASSERT_EQ(values, 1);
        ASSERT_NEAR(loss["value"][i].get<double>(), low, low * 1e-5);
        continue;
      }
      ASSERT_NEAR(loss["min"][i].get<double>(), low, low * 1e-5);
      ASSERT_NEAR(loss["mean"][i].get<double>(), sum / values, sum / values * 1e-5);
      ASSERT_NEAR(loss["max"][i].get<double>(), high, high * 1e-5);
    }
    ASSERT_EQ(value, to) << "the last values are missing";
  }
  // A client of api/live, which has read everything before.
  static void apply(Values& seen, const News& news) {
    if (news.rewound_to) seen.erase(seen.upper_bound(*news.rewound_to), seen.end());
    if (news.points.contains("loss"))
      for (const auto& point : news.points["loss"]) seen[point[0]] = point[1];
  }
  Values rounded() const {
    Values made = values_;
    for (auto& [step, value] : made) value = std::stod(str(value));  // six digits
    return made;
  }
  void expect_as_from_scratch(const History& history) {
    History fresh(layout_);
    read_all(fresh);
    EXPECT_EQ(history.names(), fresh.names());
    EXPECT_EQ(history.last_step(), fresh.last_step());
    EXPECT_EQ(curves(history), curves(fresh));
    EXPECT_EQ(curves(history, {.from = 100, .to = 900}, 50), curves(fresh, {.from = 100, .to = 900}, 50));
  }

  Values values_;  // that the file has
  std::uint64_t lines_ = 0;
  std::mt19937 random_{1};
  History history_{layout_};
};

}  // namespace rekindle::view
