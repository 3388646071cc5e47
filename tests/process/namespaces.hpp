// Virtual hosts for real processes: network namespaces joined by a bridge. The test creates and removes them.
// They share everything else with this machine (processes, files, the host name).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness.hpp"

namespace rekindle::process_test {

class Network {
 public:
  explicit Network(int hosts);
  // The reason why this test cannot create namespaces (kernel or rights); no value if it can.
  static std::optional<std::string> unavailable();

  // The beginning of the command line of a program on that host. Its interface is eth0.
  Arguments on(int host) const;
  static std::string address(int host);

  // The host's link drops every packet from now on, silently; connections are not closed.
  void cut_off(int host);
  void reconnect(int host);
  // The host has another address in place of its own from now on (another DHCP lease); returns the new one.
  std::string change_address(int host);
  // Only packets between these two are dropped.
  void block(int a, int b);
  void unblock(int a, int b);
  // Only packets from `host` to the other one are dropped.
  void block_from(int host, int other) { forget_neighbour(host, other, true); }
  void unblock_from(int host, int other) { forget_neighbour(host, other, false); }

 private:
  static Arguments enter(const Program& space);
  static void shell(const Program& space, const std::string& commands);
  void forget_neighbour(int host, int other, bool forget);

  std::unique_ptr<Program> bridge_;
  std::vector<std::unique_ptr<Program>> hosts_;
};

}  // namespace rekindle::process_test
