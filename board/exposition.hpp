// /metrics in Prometheus' text format, by prometheus-cpp's serializer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "board/run_page.hpp"

namespace rekindle::board {

// `runs`: the value of the label `run`, and the page. An empty value: no such label, because the scraper's
// target says which run it is.
std::string exposition(const std::vector<std::pair<std::string, RunPage*>>& runs);
inline constexpr const char* kExpositionType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace rekindle::board
