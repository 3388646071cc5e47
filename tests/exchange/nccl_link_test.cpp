// A communicator of NCCL by its rules: the stand-in ends the process if one is broken.
#include "exchange/nccl_link.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <thread>
#include <vector>

#include "device/host_device.hpp"
#include "nccl_fixture.hpp"

namespace rekindle::exchange::testing {
namespace {

using device::Fill;
using device::Memory;

class NcclLinks : public NcclStandIn {};

// A rank in a thread of its own, with a device of its own.
struct Rank {
  Rank(const NcclApi& api, int rank, NcclLimits limits = {})
      : api(api),
        rank(rank),
        device(device::make_host_device({static_cast<std::uint64_t>(rank), 3})),
        stream(std::move(device->make_stream().value())),
        link(api, with_device(std::move(limits))) {}
  // Memory is given back after the link has ended: a device waits for its streams then.
  const Memory& floats(std::size_t count) {
    memories.push_back(std::move(device->allocate(count * sizeof(float)).value()));
    return memories.back();
  }
  NcclLimits with_device(NcclLimits limits) {
    limits.use_device = [this, also = std::move(limits.use_device)] {
      device->use();
      if (also) also();
    };
    return limits;
  }
  // Every rank's float to every rank.
  Status gather(const Memory& own, const Memory& sums) {
    return link.group([&](NcclHandle comm) {
      return api.all_gather(own.data(), sums.data(), own.floats().size(), kNcclFloat, comm, stream->native());
    });
  }

  const NcclApi& api;
  const int rank;
  std::unique_ptr<device::HostDevice> device;
  std::unique_ptr<device::Stream> stream;
  std::deque<Memory> memories;
  NcclLink link;
};

void in_threads(int ranks, const std::function<void(int rank)>& act) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&act, rank] { act(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::size_t open_descriptors() {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

// Each rank sends its number to the next one, adds what came, and gathers the sums.
TEST_F(NcclLinks, GroupsAndKernelsInTurn_EveryRankHasEverySum) {
  set("SLOW_TAKE_MS", "3");
  constexpr int kRanks = 3, kSteps = 5;
  constexpr std::size_t kCount = 100000;
  const NcclId id = fresh_id();
  in_threads(kRanks, [&](int number) {
    Rank self(api, number);
    const Status connected = self.link.connect(id, kRanks, number);
    ASSERT_TRUE(connected) << connected.error().line();
    const Memory &own = self.floats(kCount), &came = self.floats(kCount), &all = self.floats(kRanks * kCount);
    for (int step = 0; step < kSteps; ++step) {
      self.device->run(*self.stream,
                       Fill{own.floats().data(), static_cast<float>(number + 10 * step), kCount});
      ASSERT_TRUE(self.link.group([&](NcclHandle comm) {
        const NcclCode sent =
            api.send(own.data(), kCount, kNcclFloat, (number + 1) % kRanks, comm, self.stream->native());
        const NcclCode received = api.receive(came.data(), kCount, kNcclFloat, (number + kRanks - 1) % kRanks,
                                              comm, self.stream->native());
        return sent == NcclCode::kSuccess ? received : sent;
      }));
      self.device->run(*self.stream, device::AddInto{own.floats().data(), came.floats().data(), kCount});
      ASSERT_TRUE(self.gather(own, all));
      ASSERT_TRUE(self.device->synchronize(*self.stream));
      ASSERT_TRUE(self.link.check());
      for (int peer = 0; peer < kRanks; ++peer) {
        const auto expected = static_cast<float>(peer + (peer + kRanks - 1) % kRanks + 20 * step);
        EXPECT_EQ(all.floats()[static_cast<std::size_t>(peer) * kCount], expected) << step;
        EXPECT_EQ(all.floats()[static_cast<std::size_t>(peer + 1) * kCount - 1], expected) << step;
      }
    }
  });
}

TEST_F(NcclLinks, AbortedWhileARankIsMissing_ConnectEnds) {
  const NcclId id = fresh_id();
  Rank alone(api, 0);
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    alone.link.abort();
    alone.link.abort();  // again
  });
  const Status connected = alone.link.connect(id, 2, 0);
  aborter.join();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, ErrorKind::kAborted);
  EXPECT_FALSE(alone.link.group([](NcclHandle) { return NcclCode::kSuccess; }));
}

// Rank 1 never takes part in the second exchange: it hangs, is idle, or is dead.
TEST_F(NcclLinks, AbortedInFlight_TheStreamGoesOnAndEveryLaterCallFails) {
  for (const char* version : {"22809", "22806"}) {
    SCOPED_TRACE(version);
    set("VERSION", version);
    const NcclApi used = load_nccl(REKINDLE_NCCL_STAND_IN).value();
    const NcclId id = fresh_id();
    std::atomic<bool> over{false};
    in_threads(2, [&](int number) {
      Rank self(used, number);
      const Memory &own = self.floats(4), &all = self.floats(8);
      ASSERT_TRUE(self.link.connect(id, 2, number));
      ASSERT_TRUE(self.gather(own, all));
      ASSERT_TRUE(self.device->synchronize(*self.stream));
      if (number == 1) {
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      ASSERT_TRUE(self.gather(own, all));  // is taken, and waits for its peer on the stream
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        self.link.abort();
      });
      EXPECT_TRUE(self.device->synchronize(*self.stream)) << "an aborted kernel returns";
      aborter.join();
      const Status later = self.gather(own, all);
      ASSERT_FALSE(later);
      EXPECT_EQ(later.error().kind, ErrorKind::kAborted);
      EXPECT_FALSE(self.link.check());
      over = true;
    });
  }
}

TEST_F(NcclLinks, AnErrorOfNccl_IsSeenWhileTheStreamHangs) {
  set("DEAD_PEER", "error");
  const NcclId id = fresh_id();
  in_threads(2, [&](int number) {
    Rank self(api, number);
    const Memory &own = self.floats(4), &all = self.floats(8);
    ASSERT_TRUE(self.link.connect(id, 2, number));
    if (number == 1) return;               // closes its connections
    Status found = self.gather(own, all);  // which may see it at once
    const auto done = std::move(self.device->make_event().value());
    self.device->record(*self.stream, *done);
    while (found && !self.device->is_over(*done).value()) found = self.link.check();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::kPeerFailed);
    EXPECT_NE(found.error().what.find("NCCL: error 6: the stand-in's error"), std::string::npos);
    self.link.abort();
    EXPECT_TRUE(self.device->synchronize(*self.stream));
  });
}

// A fault of NCCL, of which no peer knows: too little shared memory, no way between two GPUs.
TEST_F(NcclLinks, NcclFailsToConnectOrToTakeAGroup_AnErrorWithoutARank) {
  for (const char* what : {"init", "group"}) {
    SCOPED_TRACE(what);
    set("FAIL", what);
    const NcclId id = fresh_id();
    in_threads(2, [&](int number) {
      Rank self(api, number);
      const Memory &own = self.floats(4), &all = self.floats(8);
      Status failed = self.link.connect(id, 2, number);
      if (failed) failed = self.gather(own, all);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().kind, ErrorKind::kPeerFailed);
      EXPECT_EQ(failed.error().rank, -1);
      EXPECT_NE(failed.error().line().find("NCCL: error 2: the stand-in's error"), std::string::npos);
    });
  }
}

// The stream would wait for ever otherwise, and with it every later call that gives memory back.
TEST_F(NcclLinks, RevokeIsRefused_TheStreamGoesOn) {
  const NcclId id = fresh_id();
  in_threads(2, [&](int number) {
    Rank self(api, number);
    const Memory &own = self.floats(4), &all = self.floats(8);
    ASSERT_TRUE(self.link.connect(id, 2, number));
    ASSERT_TRUE(self.gather(own, all));
    ASSERT_TRUE(self.device->synchronize(*self.stream));
    if (number == 0) {
      set("FAIL", "revoke");
      ASSERT_TRUE(self.gather(own, all));  // rank 1 does not take part
    }
    self.link.abort();
    EXPECT_TRUE(self.device->synchronize(*self.stream));
  });
}

TEST_F(NcclLinks, CannotBeEnded_TheProcessIsToldInTime) {
  std::atomic<int> stuck{0};
  const NcclId id = fresh_id();
  {
    Rank alone(api, 0, {.end = std::chrono::milliseconds(50), .on_stuck = [&] {
                          ++stuck;
                          unset("STUCK");
                        }});
    ASSERT_TRUE(alone.link.connect(id, 1, 0));
    set("STUCK", "end");
  }
  EXPECT_EQ(stuck, 1);
}

// As when a peer of this machine takes long: the end goes on in a thread of its own.
TEST_F(NcclLinks, AbortedAndTheEndTakesLong_LaterCallsReturnMeanwhile) {
  std::atomic<bool> ends{false};
  std::atomic<int> stuck{0};
  Rank alone(api, 0,
             {.end = std::chrono::seconds(60),
              .on_stuck =
                  [&] {
                    ++stuck;  // a call has waited for the end
                    unset("STUCK");
                  },
              .use_device = [&] { ends = true; }});
  ASSERT_TRUE(alone.link.connect(fresh_id(), 1, 0));
  set("STUCK", "end");
  alone.link.abort();
  while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Status checked = alone.link.check();
  const Status grouped = alone.link.group([](NcclHandle) { return NcclCode::kInternalError; });
  EXPECT_FALSE(alone.link.ended());
  EXPECT_EQ(stuck, 0);
  unset("STUCK");
  for (const Status& each : {checked, grouped}) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.error().kind, ErrorKind::kAborted);
  }
}

// A peer that dies gives its memory back first, and one that has paused may write a checkpoint. What counts
// is that the own device does not wait.
TEST_F(NcclLinks, APeerTakesLongToEnd_TheProcessIsToldOnlyIfItsDeviceWaits) {
  set("PEERS", "local");
  for (const bool idle : {true, false}) {
    std::atomic<int> told{0};
    std::atomic<bool> waited{false};
    const NcclId id = fresh_id();
    in_threads(2, [&](int number) {
      NcclLimits limits{.end = std::chrono::milliseconds(50), .on_stuck = [&] { ++told; }};
      limits.device_is_idle = [idle] { return idle; };
      Rank self(api, number, std::move(limits));
      const Memory &own = self.floats(4), &all = self.floats(8);
      ASSERT_TRUE(self.link.connect(id, 2, number));
      ASSERT_TRUE(self.gather(own, all));
      ASSERT_TRUE(self.device->synchronize(*self.stream));
      if (number == 0) {
        self.link.abort();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_FALSE(self.link.ended());
        waited = true;
      }
      while (!waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      self.link.abort();
      while (!self.link.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    EXPECT_EQ(told, idle ? 0 : 1);
  }
}

TEST_F(NcclLinks, AHundredGenerations_LeakNoDescriptorAndNoMemoryOfTheDevice) {
  std::size_t before = 0;
  for (int generation = 0; generation < 100; ++generation) {
    const NcclId id = fresh_id();
    in_threads(2, [&](int number) {
      Rank self(api, number);
      const Memory &own = self.floats(4), &all = self.floats(8);
      ASSERT_TRUE(self.link.connect(id, 2, number));
      ASSERT_TRUE(self.gather(own, all));
      ASSERT_TRUE(self.device->synchronize(*self.stream));
    });
    if (generation == 2) before = open_descriptors();
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace rekindle::exchange::testing
