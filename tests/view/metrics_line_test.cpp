#include "view/metrics_line.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <random>

#include "base/json_reader.hpp"

namespace rekindle::view {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr const char* kStepLine =
    R"({"accuracy":0.09375,"at":"2026-11-26T12:13:53Z","attempt":1,"checkpoint_ms":0.001252,)"
    R"("compute_ms":100.73969199999999,"epoch":0,"generation":"t1.g1","images_per_second":369.65924695097544,)"
    R"("loss":2.3161680698394775,"lr":1.0,"step":1,"trainers":3})";

struct Read {
  std::uint64_t step = 0;
  std::string at;
  std::map<std::string, double> numbers;
  bool operator==(const Read&) const = default;
};

std::optional<Read> read(const std::string& text) {
  MetricsLineReader reader;
  const MetricsLine* line = reader.read(text);
  if (!line) return std::nullopt;
  Read made{.step = line->step, .at = std::string(line->at), .numbers = {}};
  std::string_view before;
  for (const auto& [name, value] : line->numbers) {
    EXPECT_TRUE(made.numbers.empty() || before < name) << text;
    before = name;
    made.numbers[std::string(name)] = value;
  }
  return made;
}

// The same with nlohmann alone.
std::optional<Read> expected(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  constexpr JsonField kFields[] = {{"step", JsonType::kWhole, Presence::kRequired}};
  if (is_deeper_than(text, JsonLimits().depth) || !check_fields(json, kFields, "")) return std::nullopt;
  Read made{.step = json.at("step").get<std::uint64_t>(), .at = "", .numbers = {}};
  if (json.contains("at") && json["at"].is_string()) made.at = json["at"];
  for (const auto& [key, value] : json.items())
    if (value.is_number() && key != "step") made.numbers[key] = value.get<double>();
  return made;
}

TEST(MetricsLine, AsTheRunWritesIt_HasAllNumbers) {
  MetricsLineReader reader;
  const MetricsLine* line = reader.read(kStepLine);
  ASSERT_NE(line, nullptr);
  EXPECT_EQ(line->step, 1U);
  EXPECT_THAT(line->numbers,
              ElementsAre(Pair("accuracy", 0.09375), Pair("attempt", 1), Pair("checkpoint_ms", 0.001252),
                          Pair("compute_ms", 100.73969199999999), Pair("epoch", 0),
                          Pair("images_per_second", 369.65924695097544), Pair("loss", 2.3161680698394775),
                          Pair("lr", 1.0), Pair("trainers", 3)));
}

TEST(MetricsLine, OfAnyForm_IsReadAsNlohmannReadsIt) {
  for (const char* text : {R"({"step":1})",
                           R"({})",
                           R"([])",
                           "",
                           "null",
                           R"({"step":1}x)",
                           R"({"step":1},)",
                           R"({"step":-1})",
                           R"({"step":-0})",
                           R"({"step":1.0})",
                           R"({"step":"1"})",
                           R"({"step":null})",
                           R"({"loss":1})",
                           R"({"step":9223372036854775807})",
                           R"({"step":9223372036854775808})",
                           R"({"step":1e2})",
                           R"({"step":99999999999999999999999})",
                           R"({"loss":null,"step":1})",
                           R"({"loss":NaN,"step":1})",
                           R"({"loss":Infinity,"step":1})",
                           R"({"loss":inf,"step":1})",
                           R"({"loss":nan,"step":1})",
                           R"({"loss":1e999,"step":1})",
                           R"({"loss":-1e999,"step":1})",
                           R"({"loss":1e-999,"step":1})",
                           R"({"loss":1e-310,"step":1})",
                           R"({"loss":-0,"step":1})",
                           R"({"loss":-0.0,"step":1})",
                           R"({"loss":.5,"step":1})",
                           R"({"loss":5.,"step":1})",
                           R"({"loss":01,"step":1})",
                           R"({"loss":+1,"step":1})",
                           R"({"loss":-,"step":1})",
                           R"({"loss":1e,"step":1})",
                           R"({"loss":1e+,"step":1})",
                           R"({"loss":1E+2,"step":1})",
                           R"({"loss":0x10,"step":1})",
                           R"({"loss":123456789012345678901234567890,"step":1})",
                           R"({"loss":18446744073709551615,"step":1})",
                           R"({"loss":true,"step":1,"voided":true})",
                           R"({"step":1,"loss":2})",
                           R"({"step":1,"step":2})",
                           R"({"a":1,"a":2,"step":3})",
                           R"({ "a" : 1 , "step" : 3 })",
                           R"({"a":{"step":7},"step":3})",
                           R"({"a":[1,2],"step":3})",
                           R"({"a\u0062":1,"step":3})",
                           R"({"a":"\"","step":3})",
                           R"({"a":"x","b":truex,"step":3})",
                           R"({"":5,"step":3})",
                           R"({"step":3,"":5})",
                           "{\"a\":\"\t\",\"step\":3}",
                           "{\"\xc3\xa4\":1,\"step\":3}",
                           "{\"\xff\":1,\"step\":3}",
                           "{\"a\":\"\xff\",\"step\":3}",
                           R"({"step":1,})",
                           R"({"at":"now","step":1})",
                           R"({"at":5,"step":1})",
                           R"({"step":1,"at":"now"})",
                           R"({"a":1 "step":1})",
                           R"({"a"1,"step":1})",
                           R"({"a":1,"step":1)",
                           R"({"a":"x)",
                           "{\"step\":1}\r"})
    EXPECT_EQ(read(text), expected(text)) << text;
  EXPECT_EQ(read(std::string("{\"a\":1\0,\"step\":1}", 16)), std::nullopt);
  EXPECT_EQ(read(std::string(100000, '[') + "1"), std::nullopt);
  EXPECT_EQ(read(R"({"a":)" + std::string(1000, '{')), std::nullopt);
}

TEST(MetricsLine, WithAnyDamage_IsReadAsNlohmannReadsIt) {
  std::mt19937 random(1);
  const std::string kBytes = "{}[]\",:0123456789.eE+-ntrufals \\\xff";
  const std::string line = kStepLine;
  int readable = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = line;
    for (unsigned changes = random() % 3; changes < 3; ++changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          text.insert(at, 1, kBytes[random() % kBytes.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 4);
      }
    }
    const auto made = read(text);
    readable += made ? 1 : 0;
    ASSERT_EQ(made, expected(text)) << text;
  }
  EXPECT_GT(readable, 1000);
  EXPECT_LT(readable, 19000);
}

}  // namespace
}  // namespace rekindle::view
