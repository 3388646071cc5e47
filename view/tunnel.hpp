// How a person reaches a page that is served on the loopback of another machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.hpp"

namespace rekindle::view {

// The command that makes the page's port one of the own machine. `login`: the machine over which `host` is
// reached; empty or equal to it: it is reached directly.
inline std::string tunnel(std::uint64_t port, const std::string& host, const std::string& login) {
  const std::string over = login.empty() || login == host ? "" : str("-J ", login, " ");
  return str("ssh -N -L ", port, ":127.0.0.1:", port, " ", over, host);
}

// How an address at which a server listens is written in a URL. `host`: the server's, for "all addresses".
inline std::string name_in_url(const std::string& address, const std::string& host) {
  if (address == "0.0.0.0" || address == "::") return host;
  return address.find(':') == std::string::npos ? address : str("[", address, "]");
}

}  // namespace rekindle::view
