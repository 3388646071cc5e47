// JSON for browsers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rekindle::board {

// One line. What is not UTF-8 is replaced: texts come from files of any content.
inline std::string json_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace rekindle::board
