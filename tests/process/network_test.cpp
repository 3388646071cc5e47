// A network that fails silently. Each host is a network namespace of the test.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"
#include "namespaces.hpp"

namespace rekindle::process_test {
namespace {

const Arguments kOnTheNetwork{"--interface", "eth0", "--exchange", "tcp"};

class NetworkFaults : public LiveRun {
 protected:
  void SetUp() override {
    if (const auto why = Network::unavailable()) REKINDLE_SKIP(Needs::kNetworks, *why);
  }
  Arguments join() const { return {rekindle(), "join", dir(), "--interface", "eth0"}; }
};

TEST_F(NetworkFaults, WorkerCutOffWithoutAFin_DeclaredLostAndDoesNoHarmWhenItIsBack) {
  Network network(2);
  ASSERT_NO_FATAL_FAILURE(begin(2, kOnTheNetwork + Arguments{"--lost-after", "2s"}, network.on(0)));
  Program other(network.on(1) + join());
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  network.cut_off(1);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("no heartbeat for 2 s"));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  const int before = times_logged("with 3 trainers");
  network.reconnect(1);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers", before + 1));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
  EXPECT_EQ(other.wait().exit_code, 0);
}

// The link between two trainers is dead, but both reach the coordinator. Three times the members wait for
// each other until the coordinator notices that (30 s); then one of the two workers is excluded.
TEST_F(NetworkFaults, DataLinkOfTwoTrainersBlocked_NamedAndTheRunGoesOnWithoutOneOfThem) {
  Network network(3);
  ASSERT_NO_FATAL_FAILURE(begin(1, kOnTheNetwork, network.on(0)));
  Program one(network.on(1) + join());
  Program two(network.on(2) + join());
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  network.block(1, 2);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("the data link between worker w0-"));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("is excluded: its data links fail again and again"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(20));
  EXPECT_TRUE(one.running() != two.running());
  const Outcome left = one.running() ? two.wait() : one.wait();
  EXPECT_EQ(left.exit_code, 70) << left.err;
  EXPECT_EQ(times_logged("no heartbeat"), 0) << log();  // all processes were reachable all the time
  stop_and_compare();
}

TEST_F(NetworkFaults, HelperBehindAFirewall_SaysWhatItCannotReachAndTheRunGoesOn) {
  Network network(2);
  network.block(0, 1);
  ASSERT_NO_FATAL_FAILURE(begin(1, kOnTheNetwork, network.on(0)));
  const Outcome helper = Program(network.on(1) + join() + Arguments{"--wait", "20s"}).wait();
  EXPECT_EQ(helper.exit_code, 75) << helper.out << helper.err;
  EXPECT_NE(helper.err.find(str("have no connection to its coordinator at ", Network::address(0), ":")),
            std::string::npos)
      << helper.err;
  std::string logs;
  for (const auto& entry : fs::directory_iterator(dir() / "logs"))
    if (entry.path().filename().string().starts_with("worker-")) logs += read_text(entry.path()).value_or("");
  const std::string line = str("cannot connect to the coordinator of term 1: ", Network::address(0), ":");
  EXPECT_EQ(times_in(logs, line), 1U) << logs;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
}

// Another launcher may give --interface to the coordinator alone.
TEST_F(NetworkFaults, RunWithoutAnInterface_HelperListensOnTheWayToTheCoordinator) {
  Network network(2);
  ASSERT_NO_FATAL_FAILURE(begin(1, kOnTheNetwork, network.on(0)));
  const std::string config = read_text(dir() / "run.toml").value_or("");
  std::ofstream without(dir() / "run.toml");
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("interface")) without << line << "\n";
  without.close();
  Program helper(network.on(1) + Arguments{rekindle(), "join", dir()});
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
  EXPECT_EQ(helper.wait().exit_code, 0);
}

// Trainers go on through shared memory, and the next coordinator listens on the new address.
TEST_F(NetworkFaults, AddressOfTheMachineChanges_AnotherCoordinatorListensOnTheNewOne) {
  Network network(1);
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--interface", "eth0", "--exchange", "shm"}, network.on(0)));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  const std::string address = network.change_address(0);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("no longer has the address " + Network::address(0)));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("term 2 on " + address));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(times_logged("resumes from step"), 0) << log();
  stop_and_compare();
}

class OneWay : public NetworkFaults, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(From, OneWay, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Helper" : "Run"; });

// The other direction goes on, so neither side sees a connection end. The run is stopped meanwhile.
TEST_P(OneWay, PacketsAreLost_TheHelperEndsWhenTheRunHasEnded) {
  Network network(2);
  ASSERT_NO_FATAL_FAILURE(begin(2, kOnTheNetwork + Arguments{"--lost-after", "2s"}, network.on(0)));
  Program helper(network.on(1) + join());
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  const int from = GetParam() ? 1 : 0, before = times_logged("with 2 trainers");
  network.block_from(from, 1 - from);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers", before + 1));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
  network.unblock_from(from, 1 - from);
  EXPECT_EQ(helper.wait().exit_code, 0);
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

}  // namespace
}  // namespace rekindle::process_test
