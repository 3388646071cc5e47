#include "namespaces.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text.hpp"

namespace rekindle::process_test {
namespace {

// A process that creates a network namespace and keeps it alive.
std::unique_ptr<Program> new_space() {
  auto space = std::make_unique<Program>(Arguments{"/usr/bin/unshare", "--net", "/bin/sleep", "infinity"});
  const auto link_of = [](const std::string& pid) {
    std::error_code code;
    return fs::read_symlink(str("/proc/", pid, "/ns/net"), code).string();
  };
  EXPECT_TRUE(eventually([&] {
    const std::string theirs = link_of(str(space->pid()));
    return !space->running() || (!theirs.empty() && theirs != link_of("self"));
  }));
  EXPECT_TRUE(space->running());
  return space;
}

}  // namespace

std::optional<std::string> Network::unavailable() {
  if (::geteuid() != 0) return "only root can make network namespaces";
  constexpr const char* kBridge =
      "ip link add br0 type bridge && ip link add port0 type veth peer name eth0 && ip link set port0 master "
      "br0";
  const Outcome outcome = Program({"/usr/bin/unshare", "--net", "/bin/sh", "-c", kBridge}).wait();
  if (outcome.exit_code != 0) return "no network namespaces with a bridge here: " + outcome.err;
  return std::nullopt;
}

Network::Network(int hosts) : bridge_(new_space()) {
  shell(*bridge_, "ip link add br0 type bridge && ip link set br0 up");
  for (int i = 0; i < hosts; ++i) {
    hosts_.push_back(new_space());
    shell(*bridge_, str("ip link add port", i, " type veth peer name eth0 netns ", hosts_.back()->pid(),
                        " && ip link set port", i, " master br0 up"));
    shell(*hosts_.back(),
          str("ip link set lo up && ip addr add ", address(i), "/24 dev eth0 && ip link set eth0 up"));
  }
}

Arguments Network::enter(const Program& space) {
  return {"/usr/bin/nsenter", str("--net=/proc/", space.pid(), "/ns/net")};
}

Arguments Network::on(int host) const { return enter(*hosts_.at(static_cast<std::size_t>(host))); }

std::string Network::address(int host) { return str("10.77.0.", host + 1); }

void Network::shell(const Program& space, const std::string& commands) {
  const Outcome outcome = Program(enter(space) + Arguments{"/bin/sh", "-c", commands}).wait();
  EXPECT_EQ(outcome.exit_code, 0) << commands << ": " << outcome.err;
}

// Removes the port from the bridge, so that all packets are lost. The link of the host stays up.
void Network::cut_off(int host) { shell(*bridge_, str("ip link set port", host, " nomaster")); }
void Network::reconnect(int host) { shell(*bridge_, str("ip link set port", host, " master br0")); }

std::string Network::change_address(int host) {
  std::string other = str("10.77.0.", 100 + host);
  shell(*hosts_.at(static_cast<std::size_t>(host)),
        str("ip addr del ", address(host), "/24 dev eth0 && ip addr add ", other, "/24 dev eth0"));
  return other;
}

void Network::block(int a, int b) {
  forget_neighbour(a, b, true);
  forget_neighbour(b, a, true);
}
void Network::unblock(int a, int b) {
  forget_neighbour(a, b, false);
  forget_neighbour(b, a, false);
}

// Packets to the other host are sent to a hardware address that does not exist.
void Network::forget_neighbour(int host, int other, bool forget) {
  const std::string where = str(address(other), " dev eth0");
  shell(*hosts_.at(static_cast<std::size_t>(host)),
        forget ? str("ip neigh replace ", where, " lladdr 02:00:00:00:00:77 nud permanent")
               : str("ip neigh del ", where));
}

}  // namespace rekindle::process_test
