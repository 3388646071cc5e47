// Where this host can be reached, and on which ports it may listen. IPv4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle {

struct Interface {
  std::string name, address;  // numeric
  bool loopback = false;
};

// This host's interfaces that are up, one entry an address.
std::vector<Interface> interfaces();

// The address to listen on. `wanted` is what NCCL_SOCKET_IFNAME may be: names or their beginnings, separated
// by commas, the first one that is there; "=eth1" that name exactly; "^docker,virbr" any but those. An
// address of this host is taken as it is. Empty: 127.0.0.1, which other machines do not reach.
// (ExitCode::kConfig)
Result<std::string> choose_address(const std::vector<Interface>& there, const std::string& wanted);

// first 0: any port that is free.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};
// "20000-20100" or "20000"; empty: any. (ExitCode::kUsage)
Result<PortRange> parse_port_range(const std::string& text);

// The numeric IPv4 address of a host's name, or of an address.
Result<std::string> resolve(const std::string& host);
// This host's address on the way to another one.
Result<std::string> address_towards(const std::string& address);
bool is_loopback(const std::string& address);
// Whether something accepts connections there. Waits 2 s at most.
bool reachable(const std::string& address, std::uint16_t port);

// The numeric address of a socket's other end; "an unknown address" where there is none.
std::string peer_address(int fd);

}  // namespace rekindle
