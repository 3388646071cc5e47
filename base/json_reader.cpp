#include "base/json_reader.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

using nlohmann::json;

bool is_whole(const json& value) {
  if (!value.is_number_integer()) return false;
  if (!value.is_number_unsigned()) return value.get<std::int64_t>() >= 0;
  return value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
}

bool is_int(const json& value) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= std::uint64_t{INT32_MAX};
  return value.get<std::int64_t>() >= INT32_MIN && value.get<std::int64_t>() <= INT32_MAX;
}

bool has_type(const json& value, JsonType type) {
  switch (type) {
    case JsonType::kText:
      return value.is_string();
    case JsonType::kWhole:
      return is_whole(value);
    case JsonType::kInt:
      return is_int(value);
    case JsonType::kNumber:
      return value.is_number();
    case JsonType::kNumberOrNull:
      return value.is_number() || value.is_null();
    case JsonType::kBool:
      return value.is_boolean();
    case JsonType::kObjects:
      return value.is_array() &&
             std::ranges::all_of(value, [](const json& each) { return each.is_object(); });
    case JsonType::kTexts:
      return value.is_array() &&
             std::ranges::all_of(value, [](const json& each) { return each.is_string(); });
  }
  return false;
}

const char* name_of(JsonType type) {
  switch (type) {
    case JsonType::kText:
      return "a text";
    case JsonType::kWhole:
      return "a whole number from 0 to 9223372036854775807";
    case JsonType::kInt:
      return "a whole number of 32 bits";
    case JsonType::kNumber:
    case JsonType::kNumberOrNull:
      return "a number";
    case JsonType::kBool:
      return "true or false";
    case JsonType::kObjects:
      return "a list of objects";
    case JsonType::kTexts:
      return "a list of texts";
  }
  return "";
}

tl::unexpected<Error> wrong(const std::string& source, const std::string& what) {
  return fail(ExitCode::kConfig, str(source, ": ", what));
}

}  // namespace

bool is_deeper_than(std::string_view text, int depth) {
  int now = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      now += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    if (now > depth) return true;
  }
  return false;
}

Status check_fields(const json& object, std::span<const JsonField> fields, const std::string& source) {
  if (!object.is_object()) return wrong(source, "is not a JSON object");
  for (const JsonField& field : fields) {
    const auto found = object.find(field.key);
    if (found == object.end() && field.presence == Presence::kRequired)
      return wrong(source, str("field '", field.key, "' is missing"));
    if (found != object.end() && !has_type(*found, field.type))
      return wrong(source, str("field '", field.key, "' is not ", name_of(field.type)));
  }
  return {};
}

Status check_objects(const json& object, const char* key, std::span<const JsonField> fields,
                     const std::string& source) {
  const auto list = object.find(key);
  if (list == object.end()) return {};
  for (std::size_t i = 0; i < list->size(); ++i)
    REKINDLE_CHECK(check_fields((*list)[i], fields, str(source, ": entry ", i + 1, " of '", key, "'")));
  return {};
}

Status wrong_value(const char* key, std::uint64_t value, const std::string& source) {
  return fail(ExitCode::kConfig, str(source, ": field '", key, "' cannot be ", value));
}

Status check_whole(std::initializer_list<WholeValue> values, const std::string& source) {
  for (const WholeValue& each : values) {
    if (each.value < each.least || each.value > std::uint64_t{INT_MAX})
      return wrong_value(each.key, each.value, source);
  }
  return {};
}

Result<json> parse_object(std::string_view text, std::span<const JsonField> fields, const std::string& source,
                          const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return wrong(source, str("has ", format_bytes(text.size()), ", more than ", format_bytes(limits.bytes)));
  if (is_deeper_than(text, limits.depth))
    return wrong(source, str("is nested deeper than ", limits.depth, " levels"));
  json parsed = json::parse(text, nullptr, false);
  REKINDLE_CHECK(check_fields(parsed, fields, source));
  return parsed;
}

}  // namespace rekindle
