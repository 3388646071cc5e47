// Addresses and ports of this host. IPv4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

struct Interface {
  std::string name, address;  // numeric
  bool loopback = false;
};

// This host's interfaces that are up, one entry for each IPv4 address.
std::vector<Interface> interfaces();

// The interface to listen on. `wanted` has the form of NCCL_SOCKET_IFNAME: names or prefixes of names,
// separated by commas, of which the first match counts; "=eth1" matches only that name; "^docker,virbr"
// matches any other. An address of this host is taken, too. Empty: the loopback one, 127.0.0.1, which other
// machines cannot reach. Errors are ExitCode::kConfig.
Result<Interface> choose_interface(const std::vector<Interface>& there, const std::string& wanted);
// Its address.
Result<std::string> choose_address(const std::vector<Interface>& there, const std::string& wanted);

// first 0: any free port.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};
// "20000-20100" or "20000"; empty: any. (ExitCode::kUsage)
Result<PortRange> parse_port_range(const std::string& text);

// The numeric IPv4 address for a host name or an address.
Result<std::string> resolve(const std::string& host);
// The address that this host uses towards another address.
Result<std::string> address_towards(const std::string& address);
bool is_loopback(const std::string& address);
// A connection to a numeric address; an empty Fd if none comes about within 2 s.
Fd connect_to(const std::string& address, std::uint16_t port);
// Whether a process accepts connections there. Waits at most 2 s.
bool reachable(const std::string& address, std::uint16_t port);

// The numeric address of a socket's peer, or "an unknown address".
std::string peer_address(int fd);

}  // namespace rekindle
