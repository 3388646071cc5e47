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
  // The SHA-256 of the certificate that the coordinator shows. Empty: unknown (files of earlier versions).
  std::string certificate;
};

// nullopt if no coordinator has written the file yet, or if the content is not valid.
std::optional<CoordinatorPlace> read_place(const Layout& layout);

// Where the loopback address is on which the run listens, if it is not this process's own one: "host n7", or
// another container of this machine. Else "".
std::string foreign_loopback(const Layout& layout);

}  // namespace rekindle::run
