// Which way gradients go between trainers with a device each.
#include "exchange/device_hub.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/host_device.hpp"
#include "nccl_fixture.hpp"

namespace rekindle::exchange {
namespace {

struct Trainer {
  Trainer(const std::string& identity, std::optional<NcclApi> nccl)
      : device(device::make_host_device({.identity = identity})),
        stream(std::move(device->make_stream().value())),
        hub(std::move(
            open_device_hub({{device.get(), stream.get()}, std::move(nccl)}, 100, "127.0.0.1").value())) {}

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

TEST_F(DeviceHubs, OtherVersionsOrNone_ThroughTheHost) {
  NcclApi other = api;
  other.version += 100;
  const Trainer a("gpu 1", api), b("gpu 2", other), c("gpu 3", std::nullopt);
  EXPECT_EQ(chosen({&a, &b}, Backend::kAuto), Backend::kSharedMemory);
  EXPECT_EQ(chosen({&a, &c}, Backend::kAuto), Backend::kSharedMemory);
  EXPECT_EQ(chosen({&c, &a}, Backend::kAuto), Backend::kSharedMemory);
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
