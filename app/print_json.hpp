// JSON for programs that read what a command prints.
#pragma once

#include <iostream>
#include <nlohmann/json.hpp>

namespace rekindle::app {

// On stdout. A path may contain any bytes, but JSON is UTF-8. A terminal gets only ASCII.
inline void print_json(const nlohmann::json& json) {
  std::cout << json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace rekindle::app
