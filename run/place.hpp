// coordinator.json: the address of a run's coordinator.
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

// nullopt if no coordinator has written the file yet, or if the content is not valid.
std::optional<CoordinatorPlace> read_place(const Layout& layout);

// The host on whose loopback address the run listens, if that is another machine; else "". Who dials this
// address here, reaches this machine.
std::string loopback_of_another_host(const Layout& layout);

}  // namespace rekindle::run
