// JSON from any source. The size and depth are limited before parsing, and the types of the fields are
// checked after it, so that json.value(key, ...) does not throw later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rekindle {

struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;
  int depth = 32;  // of objects and lists, because nlohmann copies and writes by recursion
};

enum class JsonType {
  kText,
  kWhole,         // 0 to 2^63 - 1
  kInt,           // of 32 bits, with a sign
  kNumber,        // integer or not
  kNumberOrNull,  // nlohmann writes a number that is not finite as null
  kBool,
  kObjects,  // a list of them
  kTexts,    // a list of them
};

enum class Presence { kRequired, kOptional };

struct JsonField {
  const char* key;
  JsonType type;
  Presence presence = Presence::kOptional;
};

// Errors are ExitCode::kConfig and contain `source` (usually a path) and the name of the field.

// An object with fields of these types. Other fields are kept unchecked.
Result<nlohmann::json> parse_object(std::string_view text, std::span<const JsonField> fields,
                                    const std::string& source, const JsonLimits& limits = {});
Status check_fields(const nlohmann::json& object, std::span<const JsonField> fields,
                    const std::string& source);
// Checks each object of the list `key`, if the list exists.
Status check_objects(const nlohmann::json& object, const char* key, std::span<const JsonField> fields,
                     const std::string& source);

// A whole number that was read, and the least that it may be. The most is INT_MAX.
struct WholeValue {
  const char* key;
  std::uint64_t value;
  std::uint64_t least = 0;
};
Status check_whole(std::initializer_list<WholeValue> values, const std::string& source);
Status wrong_value(const char* key, std::uint64_t value, const std::string& source);

// Whether objects and lists are nested deeper than `depth`. Reads the text once and does not check its
// syntax.
bool is_deeper_than(std::string_view json, int depth);

}  // namespace rekindle
