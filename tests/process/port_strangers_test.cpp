// Unauthenticated peers and garbage at every port that a run opens: they get no data, and the run is not
// disturbed.

#include <csignal>
#include <set>

#include "../needs.hpp"
#include "exchange/handshake.hpp"
#include "live_run.hpp"
#include "namespaces.hpp"
#include "ports.hpp"
#include "run/layout.hpp"
#include "run/place.hpp"
#include "strangers.hpp"

namespace rekindle::process_test {
namespace {

constexpr const char* kTurnedAway = "was turned away";

int count(const std::string& text, const std::string& words) {
  int times = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++times;
  return times;
}

// Data that any client may send to any port.
std::vector<std::string> rubbish() {
  std::string random(100'000, '\0');
  std::uint32_t state = 12345;
  for (char& c : random) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  return {"GET / HTTP/1.0\r\n\r\n", random, std::string(64, '\xff'),        // lengths of 2^32 - 1 everywhere
          std::string("\x16\x03\x03\xff\xff", 5) + std::string(1000, 'x'),  // a TLS record of 64 KiB
          "x"};
}

class PortStrangers : public LiveRun {
 protected:
  ListeningPort control_port() const {
    const auto ports = listening_ports(coordinator());
    EXPECT_EQ(ports.size(), 1U);
    return ports.at(0);
  }
  pid_t coordinator() const { return parts_of(dir(), "coordinator").at(0); }
  // Kills one trainer, so that the others connect again. Returns when its replacement is in the generation.
  void meet_again() {
    const int before = times_logged("of them new");
    ::kill(parts_of(dir(), "trainer").at(0), SIGKILL);
    ASSERT_NO_FATAL_FAILURE(wait_for_log("of them new", before + 1));
    ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  }
};

TEST_F(PortStrangers, AtTheControlPort_GetNothingAndTheRunDoesNotNotice) {
  ASSERT_EQ(run(mnist_run(scratch_ / "other", 1, 1)).exit_code, 0);  // a run with another key pair
  // With few descriptors the limit is low: a quarter of them may be pending connections.
  ASSERT_NO_FATAL_FAILURE(begin(2, {}, {"/usr/bin/prlimit", "--nofile=600:600"}));
  const ListeningPort port = control_port();
  const pid_t process = coordinator();
  const std::size_t descriptors = open_descriptors(process);
  const auto place = run::read_place(run::Layout(dir()));
  ASSERT_TRUE(place && place->port == port.port);
  EXPECT_EQ(place->certificate.size(), 64U) << "a start of the run elsewhere compares it";

  EXPECT_TRUE(let_in_with_tls(port, dir()));  // the positive case: the function detects success
  EXPECT_FALSE(let_in_with_tls(port, scratch_ / "other"));
  EXPECT_FALSE(let_in_with_tls(port, {}));
  // The same while the key pair cannot be read.
  const fs::path keys = run::Layout(dir()).keys().path();
  fs::rename(keys, keys.string() + ".away");
  for (const std::string& words : rubbish()) {
    for (int i = 0; i < 10; ++i) call(port, words);  // and closes the connection
  }
  EXPECT_LT(until_hung_up(call(port, rubbish().front())).size(), 100U);
  fs::rename(keys.string() + ".away", keys);
  for (const std::string& words : rubbish()) {
    if (words.size() == 1) continue;  // may be the beginning of a valid message
    const std::string answer = until_hung_up(call(port, words));
    EXPECT_LT(answer.size(), 100U);  // a TLS alert
  }
  constexpr int kSilent = 250;
  std::vector<Fd> silent;
  silent.reserve(kSilent);
  for (int i = 0; i < kSilent; ++i) silent.push_back(call(port, i % 2 == 0 ? "" : "\x16"));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("too many unauthenticated connections"));
  // Authenticated peers are still accepted.
  Program joiner({rekindle(), "join", dir()});
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  EXPECT_LT(open_descriptors(process), descriptors + 170);
  silent.clear();
  EXPECT_TRUE(eventually([&] { return open_descriptors(process) < descriptors + 20; }))
      << descriptors << " then, " << open_descriptors(process) << " now";

  EXPECT_EQ(coordinator(), process);
  EXPECT_TRUE(logged("certificate verify failed")) << log();
  EXPECT_TRUE(logged("peer did not return a certificate")) << log();
  EXPECT_TRUE(logged("TLS: http request")) << log();
  EXPECT_LT(times_logged(kTurnedAway), 30) << log();  // of several hundred connections
  EXPECT_FALSE(logged("was lost")) << log();
  stop_and_compare();
  EXPECT_EQ(joiner.wait().exit_code, 0);
}

// The former owner of a run directory still has its key.
TEST_F(PortStrangers, WithTheKeyOfAnEarlierAttempt_GetNothing) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  fs::create_directories(scratch_ / "kept");
  fs::copy(dir() / "key", scratch_ / "kept/key", fs::copy_options::recursive);
  ASSERT_NO_FATAL_FAILURE(begin(1));
  EXPECT_TRUE(let_in_with_tls(control_port(), dir()));
  EXPECT_FALSE(let_in_with_tls(control_port(), scratch_ / "kept"));
  stop_and_compare();
}

TEST_F(PortStrangers, AtTheDataPorts_GetNothingAndTheRunDoesNotNotice) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {"--exchange", "tcp"}));
  std::vector<Fd> callers;
  for (const pid_t trainer : parts_of(dir(), "trainer")) {
    const auto ports = listening_ports(trainer);
    ASSERT_EQ(ports.size(), 1U);
    EXPECT_EQ(ports[0].address, "127.0.0.1");
    for (const std::string& words : rubbish()) callers.push_back(call(ports[0], words));
    // Hello messages like those of the members of the first generation, sent to every rank.
    for (int rank = 0; rank < 2; ++rank) {
      const exchange::Membership old{1, 1, 2, 3, "guessed"};
      callers.push_back(
          call(ports[0], exchange::Handshake::dial(old, rank, exchange::random_nonce()).opening()));
    }
    for (int i = 0; i < 300; ++i) callers.push_back(call(ports[0]));
  }
  ASSERT_NO_FATAL_FAILURE(meet_again());  // while all these connections are pending
  const std::string said = trainer_logs();
  EXPECT_GE(count(said, "to the data port was turned away: not a hello"), 1) << said;
  EXPECT_GE(count(said, "to the data port was turned away: a hello of generation t1.g1"), 1) << said;
  EXPECT_GE(count(said, "it has not proved that it belongs to this generation"), 1) << said;
  EXPECT_LT(count(said, kTurnedAway), 30) << said;
  EXPECT_EQ(times_logged("trainer was lost"), 0);
  stop_and_compare();
}

class Ports : public PortStrangers {};

TEST_F(Ports, RunOfOneMachine_ListensOnLoopbackAndNowhereElse) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  EXPECT_EQ(control_port().address, "127.0.0.1");
  for (const char* part : {"supervisor", "worker"}) {
    for (const pid_t pid : parts_of(dir(), part)) EXPECT_TRUE(listening_ports(pid).empty()) << part;
  }
  for (const pid_t pid : parts_of(dir(), "trainer")) {
    for (const ListeningPort& port : listening_ports(pid)) EXPECT_EQ(port.address, "127.0.0.1");
  }
}

TEST_F(Ports, SharedMemoryAlone_TrainersListenNowhere) {
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--exchange", "shm"}));
  for (const pid_t pid : parts_of(dir(), "trainer")) EXPECT_TRUE(listening_ports(pid).empty());
}

TEST_F(Ports, InterfaceAndPortRange_AreKept) {
  if (const auto why = Network::unavailable()) REKINDLE_SKIP(Needs::kNetworks, *why);
  Network network(1);
  ASSERT_NO_FATAL_FAILURE(
      begin(2, {"--interface", "eth", "--port-range", "20000-20002", "--exchange", "tcp"}, network.on(0)));
  std::set<std::uint16_t> used;
  for (const char* part : {"coordinator", "trainer"}) {
    for (const pid_t pid : parts_of(dir(), part)) {
      for (const ListeningPort& port : listening_ports(pid)) {
        EXPECT_EQ(port.address, Network::address(0)) << part;
        used.insert(port.port);
      }
    }
  }
  EXPECT_EQ(used, (std::set<std::uint16_t>{20000, 20001, 20002}));
}

TEST_F(Ports, InterfaceThatIsNotThere_RefusedWithThoseThatAre) {
  const Outcome outcome = run(mnist_run(dir(), 1, 3) + Arguments{"--interface", "nothing7"});
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_NE(outcome.err.find("no network interface 'nothing7'"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("lo (127.0.0.1)"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("SOCKET_IFNAME"), std::string::npos) << outcome.err;
  EXPECT_EQ(run(mnist_run(dir(), 1, 3) + Arguments{"--port-range", "30-20"}).exit_code, 64);
  const Arguments environment{"/usr/bin/env", "NCCL_SOCKET_IFNAME=nothing8", "GLOO_SOCKET_IFNAME=lo"};
  const Outcome by_environment = Program(environment + Arguments{rekindle()} + mnist_run(dir(), 1, 3)).wait();
  EXPECT_EQ(by_environment.exit_code, 78);
  EXPECT_NE(by_environment.err.find("'nothing8' that is up and has an IPv4 address"), std::string::npos)
      << by_environment.err;
  EXPECT_NE(by_environment.err.find("NCCL_SOCKET_IFNAME"), std::string::npos) << by_environment.err;
}

}  // namespace
}  // namespace rekindle::process_test
