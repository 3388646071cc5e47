// Which way gradients go between trainers with a device each.
#include "exchange/device_hub.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "device/host_device.hpp"
#include "nccl_fixture.hpp"

namespace rekindle::exchange {
namespace {

struct Trainer {
  Trainer(const std::string& identity, std::optional<NcclApi> nccl, const std::string& bus = {},
          std::size_t memory = std::numeric_limits<std::size_t>::max())
      : device(device::make_host_device({.identity = identity, .bus = bus, .memory = memory})),
        stream(std::move(device->make_stream().value())),
        hub(std::move(open_device_hub({{device.get(), stream.get()}, nccl}, 100, "127.0.0.1").value())) {}

  std::unique_ptr<device::HostDevice> device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<Hub> hub;
};

class DeviceHubs : public testing::NcclStandIn {
 protected:
  static Backend chosen(const std::vector<const Trainer*>& trainers, Backend wanted) {
    Plan plan;
    plan.backend = wanted;
    plan.leaves = 8;
    plan.secret = "secret";
    for (const Trainer* each : trainers) plan.members.push_back(each->hub->endpoint());
    return trainers[0]->hub->make(plan)->backend();
  }
};

TEST_F(DeviceHubs, ADeviceForEachAndOneVersion_Nccl) {
  const Trainer a("gpu 1", api), b("gpu 2", api);
  EXPECT_EQ(chosen({&a, &b}, Backend::kAuto), Backend::kNccl);
  EXPECT_EQ(chosen({&a, &b}, Backend::kSharedMemory), Backend::kSharedMemory);
  EXPECT_EQ(chosen({&a, &b}, Backend::kTcp), Backend::kTcp);
}

TEST_F(DeviceHubs, TwoOnOneDevice_ThroughTheHost) {
  const Trainer a("gpu 1", api), b("gpu 1", api);
  EXPECT_EQ(chosen({&a, &b}, Backend::kAuto), Backend::kSharedMemory);
}

// NCCL compares the places on the bus: "Duplicate GPU detected".
TEST_F(DeviceHubs, TwoPartsOfOneGpu_ThroughTheHost) {
  const Trainer a("part 1", api, "bus 1"), b("part 2", api, "bus 1"), c("part 3", api, "bus 2");
  EXPECT_EQ(chosen({&a, &b}, Backend::kAuto), Backend::kSharedMemory);
  EXPECT_EQ(chosen({&a, &c}, Backend::kAuto), Backend::kNccl);
}

// GPUs of two machines have the same places.
TEST_F(DeviceHubs, TheSamePlaceOfTwoHosts_Nccl) {
  const Trainer a("gpu 1", api, "bus 1");
  const std::string nccl = a.hub->endpoint().nccl;
  EXPECT_NE(nccl.find(str("bus 1@", host_name(), "/", boot_id())), std::string::npos) << nccl;
}

TEST_F(DeviceHubs, MorePartialSumsThanAKernelAdds_ThroughTheHostOrAnError) {
  const Trainer a("gpu 0", api);
  Plan plan;
  plan.leaves = 1024;
  plan.secret = "secret";
  for (int i = 0; i < 255; ++i) {
    plan.members.push_back(a.hub->endpoint());
    plan.members.back().nccl += str("-", i);
  }
  EXPECT_NE(a.hub->make(plan)->backend(), Backend::kNccl);
  plan.backend = Backend::kNccl;
  EXPECT_EQ(a.hub->make(plan)->backend(), Backend::kNccl);
}

TEST_F(DeviceHubs, OtherVersionsOrNone_ThroughTheHost) {
  NcclApi other = api;
  other.version += 100;
  const Trainer a("gpu 1", api), b("gpu 2", other), c("gpu 3", std::nullopt);
  EXPECT_EQ(chosen({&a, &b}, Backend::kAuto), Backend::kSharedMemory);
  EXPECT_EQ(chosen({&a, &c}, Backend::kAuto), Backend::kSharedMemory);
  EXPECT_EQ(chosen({&c, &a}, Backend::kAuto), Backend::kSharedMemory);
}

// NCCL waits for the ranks of an id in a thread and at a port that nothing ends before all have come.
TEST_F(DeviceHubs, ARankHasNoMemoryForTheExchange_NoUniqueIdIsMade) {
  static std::atomic<int> made;
  static NcclApi stand_in;
  made = 0;
  stand_in = api;
  NcclApi counts = api;
  counts.get_unique_id = [](NcclId* id) {
    ++made;
    return stand_in.get_unique_id(id);
  };
  const Trainer a("gpu 1", counts), b("gpu 2", counts, {}, 0);
  const auto connected = [&](int rank) {
    Plan plan;
    plan.term = plan.generation = 1;
    plan.rank = rank;
    plan.backend = Backend::kNccl;
    plan.leaves = 8;
    plan.secret = "secret";
    plan.members = {a.hub->endpoint(), b.hub->endpoint()};
    return (rank == 0 ? a : b).hub->make(plan)->connect();
  };
  Status with_memory;
  std::thread other([&] { with_memory = connected(0); });
  const Status without = connected(1);
  other.join();
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().line().find("which the exchange by NCCL needs"), std::string::npos)
      << without.error().line();
  EXPECT_FALSE(with_memory);
  EXPECT_EQ(made, 0);
}

// As NCCL itself has it: NCCL_HOSTID makes one device several.
TEST_F(DeviceHubs, OneDeviceOfTwoHosts_Nccl) {
  const Trainer a("gpu 1", api), b("gpu 1", api);
  Plan plan;
  plan.secret = "secret";
  plan.leaves = 8;
  ::setenv("NCCL_HOSTID", "one", 1);
  plan.members.push_back(a.hub->endpoint());
  ::setenv("NCCL_HOSTID", "two", 1);
  plan.members.push_back(b.hub->endpoint());
  ::unsetenv("NCCL_HOSTID");
  EXPECT_EQ(a.hub->make(plan)->backend(), Backend::kNccl);
}

}  // namespace
}  // namespace rekindle::exchange
