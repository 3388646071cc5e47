// JSON that any program may have written. Its size and depth are limited before it is parsed, and its fields
// have the types that their readers expect afterwards: json.value(key, ...) does not throw then.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rekindle {

struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;
  int depth = 32;  // of objects and lists: nlohmann copies and writes by recursion
};

enum class JsonType {
  kText,
  kWhole,         // 0 to 2^63 - 1
  kInt,           // of 32 bits, with a sign
  kNumber,        // whole or not
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

// Errors are ExitCode::kConfig, and name `source` (a path, most often) and the field.

// An object with fields of these types; other fields are kept and not looked at.
Result<nlohmann::json> parse_object(std::string_view text, std::span<const JsonField> fields,
                                    const std::string& source, const JsonLimits& limits = {});
Status check_fields(const nlohmann::json& object, std::span<const JsonField> fields,
                    const std::string& source);
// Each object of the list `key`, if that is there.
Status check_objects(const nlohmann::json& object, const char* key, std::span<const JsonField> fields,
                     const std::string& source);

// Whether objects and lists lie deeper in each other than that. Takes the time of one look at the text, and
// does not check its syntax.
bool is_deeper_than(std::string_view json, int depth);

}  // namespace rekindle
