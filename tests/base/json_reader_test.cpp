#include "base/json_reader.hpp"

#include <gtest/gtest.h>

namespace rekindle {
namespace {

constexpr JsonField kFields[] = {{"name", JsonType::kText, Presence::kRequired},
                                 {"count", JsonType::kWhole},
                                 {"place", JsonType::kInt},
                                 {"loss", JsonType::kNumberOrNull},
                                 {"rate", JsonType::kNumber},
                                 {"done", JsonType::kBool},
                                 {"words", JsonType::kTexts},
                                 {"parts", JsonType::kObjects}};

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  const auto read = parse_object(text, kFields, "FILE", limits);
  if (read) return "";
  EXPECT_EQ(read.error().code, ExitCode::kConfig);
  return read.error().line();
}

TEST(JsonReader, FieldsOfTheirTypesAreRead_AndOthersAreNotLookedAt) {
  for (
      const char* text :
      {R"({"name":"a"})",
       R"({"name":"","count":9223372036854775807,"place":-1,"loss":null,"rate":1,"done":true,"words":["x"]})",
       R"({"name":"a","parts":[{"x":1},{}],"words":[],"other":[{"a":[null]}],"loss":1.5})"})
    EXPECT_EQ(refusal(text), "") << text;
}

TEST(JsonReader, AFieldOfAnotherType_IsNamed) {
  EXPECT_EQ(refusal(R"({"name":5})"), "FILE: field 'name' is not a text");
  EXPECT_EQ(refusal(R"({"count":1})"), "FILE: field 'name' is missing");
  const auto wrong = [](const std::string& field) { return refusal(R"({"name":"a",)" + field + "}"); };
  for (const char* count :
       {"-1", "1.5", "\"1\"", "null", "9223372036854775808", "18446744073709551615", "[]"})
    EXPECT_EQ(wrong(std::string(R"("count":)") + count),
              "FILE: field 'count' is not a whole number from 0 to 9223372036854775807");
  for (const char* place : {"2147483648", "-2147483649", "0.5"})
    EXPECT_EQ(wrong(std::string(R"("place":)") + place),
              "FILE: field 'place' is not a whole number of 32 bits");
  EXPECT_EQ(wrong(R"("loss":"low")"), "FILE: field 'loss' is not a number");
  EXPECT_EQ(wrong(R"("rate":null)"), "FILE: field 'rate' is not a number");
  EXPECT_EQ(wrong(R"("done":1)"), "FILE: field 'done' is not true or false");
  EXPECT_EQ(wrong(R"("words":["a",1])"), "FILE: field 'words' is not a list of texts");
  EXPECT_EQ(wrong(R"("parts":[{},[]])"), "FILE: field 'parts' is not a list of objects");
}

TEST(JsonReader, WhatIsNoObject_IsRefused) {
  for (const char* text : {"", "5", "[]", "null", "{", "{}x", "{\"name\":\"\xff\"}"})
    EXPECT_EQ(refusal(text), "FILE: is not a JSON object") << text;
}

TEST(JsonReader, SizeAndDepthAreLimitedBeforeAnythingIsParsed) {
  EXPECT_EQ(refusal(R"({"name":"abc"})", {.bytes = 10}), "FILE: has 14 bytes, more than 10 bytes");
  const std::string deep = R"({"name":)" + std::string(300000, '[') + std::string(300000, ']') + "}";
  EXPECT_EQ(refusal(deep), "FILE: is nested deeper than 32 levels");
  EXPECT_EQ(refusal(std::string(300000, '{')), "FILE: is nested deeper than 32 levels");
  // Brackets inside a string do not count.
  EXPECT_EQ(refusal(R"({"name":"\")" + std::string(1000, '[') + "\"}"), "");
}

TEST(JsonReader, ObjectsInAListAreCheckedAsWell) {
  const auto object = nlohmann::json::parse(R"({"parts":[{"name":"a"},{"name":[]}]})");
  const Status checked = check_objects(object, "parts", kFields, "FILE");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().what, "FILE: entry 2 of 'parts': field 'name' is not a text");
  EXPECT_TRUE(check_objects(object, "none", kFields, "FILE"));
}

}  // namespace
}  // namespace rekindle
