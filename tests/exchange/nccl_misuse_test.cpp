// The stand-in finds what NCCL's rules forbid: otherwise the tests with it would show nothing.
#include <chrono>
#include <thread>

#include "device/host_device.hpp"
#include "nccl_fixture.hpp"

namespace rekindle::exchange::testing {
namespace {

class NcclMisuse : public NcclStandIn {
 protected:
  NcclHandle make(int ranks = 1) const {
    NcclHandle comm = nullptr;
    NcclConfig config;
    api.init_rank(&comm, ranks, fresh_id(), 0, &config);
    return comm;
  }
  NcclHandle make_ready() const {
    NcclHandle const comm = make();
    for (NcclCode now = NcclCode::kInProgress; now != NcclCode::kSuccess;) api.async_error(comm, &now);
    return comm;
  }
  void gather(NcclHandle comm) { api.all_gather(from, to, 1, kNcclFloat, comm, stream->native()); }

  std::unique_ptr<device::HostDevice> device = device::make_host_device();
  std::unique_ptr<device::Stream> stream = std::move(device->make_stream().value());
  float from[1] = {1}, to[1] = {0};
};
using NcclMisuseDeathTest = NcclMisuse;

// Each death is in a process of its own, which begins anew ("threadsafe"): threads do not survive a fork.
TEST_F(NcclMisuseDeathTest, EachIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        NcclHandle const comm = make_ready();
        api.abort(comm);
        NcclCode now;
        api.async_error(comm, &now);
      },
      "was aborted");
  EXPECT_DEATH(api.group_end(), "a group ends that has not begun");
  EXPECT_DEATH(gather(make_ready()), "outside of a group");
  EXPECT_DEATH(
      {
        NcclHandle const comm = make(2);  // the other rank never comes
        api.group_start();
        gather(comm);
      },
      "use before ncclSuccess");
  EXPECT_DEATH(
      {
        NcclHandle const comm = make_ready();
        api.revoke(comm, 0);
        api.revoke(comm, 0);
      },
      "a second revoke");
  EXPECT_DEATH(
      {
        NcclHandle const comm = make_ready();
        api.revoke(comm, 0);
        api.group_start();
        gather(comm);
      },
      "a call after revoke");
  EXPECT_DEATH(api.revoke(make(2), 0), "a revoke while initialising");
  EXPECT_DEATH(
      {
        NcclHandle const comm = make_ready();
        set("STUCK", "end");
        std::thread first([&] { api.abort(comm); });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        NcclCode now;
        api.async_error(comm, &now);
      },
      "two threads are inside NCCL");
  NcclConfig blocking;
  blocking.blocking = 1;
  NcclHandle comm = nullptr;
  EXPECT_DEATH(api.init_rank(&comm, 1, fresh_id(), 0, &blocking), "not of a non-blocking communicator");
}

// What comes on the stream before NCCL has taken the group runs before it.
TEST_F(NcclMisuse, AKernelBeforeSuccess_ReadsOldBytes) {
  set("SLOW_TAKE_MS", "50");
  NcclHandle const comm = make_ready();
  float copied = 0;
  api.group_start();
  gather(comm);
  api.group_end();
  device->copy(*stream, &copied, to, sizeof copied);  // too early
  NcclCode now = NcclCode::kInProgress;
  while (now == NcclCode::kInProgress) api.async_error(comm, &now);
  ASSERT_TRUE(device->synchronize(*stream));
  EXPECT_EQ(copied, 0);
  EXPECT_EQ(to[0], 1);
  api.abort(comm);
}

}  // namespace
}  // namespace rekindle::exchange::testing
