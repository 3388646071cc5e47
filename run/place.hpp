// coordinator.json: where a run's coordinator is to be found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/layout.hpp"

namespace rekindle::run {

struct CoordinatorPlace {
  std::uint64_t term = 0;
  std::string host;  // numeric
  std::uint16_t port = 0;
};

// Nothing if no coordinator has written it yet, or if what is there is none's.
std::optional<CoordinatorPlace> read_place(const Layout& layout);

}  // namespace rekindle::run
