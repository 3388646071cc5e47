// The ports on which a process listens.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rekindle::process_test {

struct ListeningPort {
  std::string address;  // "127.0.0.1"; of IPv6 sockets "ipv6"
  std::uint16_t port = 0;
  friend bool operator==(const ListeningPort&, const ListeningPort&) = default;
};
std::vector<ListeningPort> listening_ports(pid_t pid);

std::size_t open_descriptors(pid_t pid);

}  // namespace rekindle::process_test
