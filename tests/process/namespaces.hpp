// Hosts of their own for real processes: network namespaces joined by a bridge, made by the test and gone
// with it. They share everything else with this machine (processes, files, the host's name).
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
  // Why the kernel, or the lack of rights, does not let this test have them; nothing if it does.
  static std::optional<std::string> unavailable();

  // The beginning of the command line of a program on that host. Its interface is eth0.
  Arguments on(int host) const;
  static std::string address(int host);

  // The host's link drops every packet from now on, silently; connections are not closed.
  void cut_off(int host);
  void reconnect(int host);
  // Only packets between these two are dropped.
  void block(int a, int b);
  void unblock(int a, int b);

 private:
  static Arguments enter(const Program& space);
  static void shell(const Program& space, const std::string& commands);
  void forget_neighbour(int host, int other, bool forget);

  std::unique_ptr<Program> bridge_;
  std::vector<std::unique_ptr<Program>> hosts_;
};

}  // namespace rekindle::process_test
