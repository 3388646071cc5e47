// The host twin: operations run late, and only events give an order. A missing event is found.
#include "device/host_device.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace rekindle::device {
namespace {

struct Twin {
  explicit Twin(std::uint64_t seed = 1, std::uint64_t most_ms = 20)
      : device(make_host_device({seed, most_ms})) {}
  std::unique_ptr<Stream> stream() const { return device->make_stream().value(); }
  std::unique_ptr<Event> event() const { return device->make_event().value(); }
  Memory floats(std::size_t count) const { return device->allocate(count * sizeof(float)).value(); }
  std::unique_ptr<HostDevice> device;
};

TEST(HostDevice, MemoryIsAlignedZeroAndCounted) {
  const Twin twin;
  {
    const Memory a = twin.floats(1), b = twin.floats(1000);
    for (const Memory* each : {&a, &b}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each->data()) % kAlignment, 0U);
      for (const float value : each->floats()) EXPECT_EQ(value, 0);
    }
    EXPECT_EQ(twin.device->bytes_taken(), 4004U);
  }
  EXPECT_EQ(twin.device->bytes_taken(), 0U);
}

TEST(HostDevice, OneStream_RunsInItsOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Twin twin(seed, 1);
    const auto stream = twin.stream();
    const Memory memory = twin.floats(4);
    for (int i = 0; i < 10; ++i)
      twin.device->run(*stream, Fill{memory.floats().data(), static_cast<float>(i), 4});
    ASSERT_TRUE(twin.device->synchronize(*stream));
    EXPECT_EQ(memory.floats()[3], 9);
  }
}

// A copy of new values in one stream, and an addition of them in another.
float sum_in_two_streams(std::uint64_t seed, bool with_event) {
  const Twin twin(seed);
  const auto copies = twin.stream(), adds = twin.stream();
  const auto copied = twin.event();
  const Memory values = twin.floats(1), sum = twin.floats(1);
  static const float fresh = 3;  // the copy may run when this function has returned
  twin.device->copy(*copies, values.data(), &fresh, sizeof fresh);
  twin.device->record(*copies, *copied);
  if (with_event) twin.device->wait(*adds, *copied);
  twin.device->run(*adds, AddInto{sum.floats().data(), values.floats().data(), 1});
  EXPECT_TRUE(twin.device->synchronize(*adds));
  return sum.floats()[0];
}

TEST(HostDevice, AnEventGivesTheOrder_AndAMissingOneIsFound) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    EXPECT_EQ(sum_in_two_streams(seed, true), 3) << seed;
    found += sum_in_two_streams(seed, false) != 3 ? 1 : 0;
  }
  EXPECT_GE(found, 20) << "the twin is too quick: it would hide a missing event";
}

TEST(HostDevice, TheHostReadsTooEarly_AndFindsOldBytes) {
  const Twin twin(1, 10000);
  const auto stream = twin.stream();
  const auto done = twin.event();
  const Memory memory = twin.floats(1);
  float value = 0;
  twin.device->run(*stream, Fill{memory.floats().data(), 5, 1});
  twin.device->copy(*stream, &value, memory.data(), sizeof value);
  twin.device->record(*stream, *done);
  EXPECT_EQ(value, 0);
  EXPECT_FALSE(twin.device->is_over(*done).value());
  ASSERT_TRUE(twin.device->synchronize(*done));
  EXPECT_EQ(value, 5);
  EXPECT_TRUE(twin.device->is_over(*done).value());
  EXPECT_TRUE(twin.device->is_over(*twin.event()).value()) << "one that was never recorded";
}

// A wait is for the record() before it, not for a later one.
TEST(HostDevice, AnEventThatIsRecordedAgain_IsAnotherPoint) {
  const Twin twin(1, 10000);
  const auto first = twin.stream(), second = twin.stream();
  const auto event = twin.event();
  twin.device->record(*first, *event);
  twin.device->wait(*second, *event);
  bool ran = false;
  twin.device->run(*first, [&ran]() -> Status {
    ran = true;
    return {};
  });
  twin.device->record(*first, *event);
  ASSERT_TRUE(twin.device->synchronize(*second));
  EXPECT_FALSE(ran);
  ASSERT_TRUE(twin.device->synchronize(*event));
  EXPECT_TRUE(ran);
}

TEST(HostDevice, AnOperationFails_EverySynchronizeSaysSoAndNothingRunsAnyMore) {
  const Twin twin;
  const auto stream = twin.stream(), other = twin.stream();
  const auto event = twin.event();
  const Memory memory = twin.floats(1);
  twin.device->run(*stream, []() -> Status { return fail("an illegal address"); });
  twin.device->run(*stream, Fill{memory.floats().data(), 1, 1});
  twin.device->record(*stream, *event);
  const Status status = twin.device->synchronize(*stream);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "an illegal address");
  EXPECT_FALSE(twin.device->synchronize(*other));
  EXPECT_FALSE(twin.device->is_over(*event));
  EXPECT_EQ(memory.floats()[0], 0);
}

// As a GPU: a cache may give memory back before an allocation fails.
TEST(HostDevice, Allocations_TheCallForAFullDeviceIsMadeFirst) {
  const Twin twin;
  std::vector<std::size_t> taken;
  twin.device->when_full([&] { taken.push_back(twin.device->bytes_taken()); });
  const Memory one = twin.floats(64), two = twin.floats(64);
  EXPECT_EQ(taken, (std::vector<std::size_t>{0, 256}));
}

TEST(HostDevice, AStreamThatGoes_FinishesItsWork) {
  const Twin twin(1, 10000);
  const Memory memory = twin.floats(1);
  twin.device->run(*twin.stream(), Fill{memory.floats().data(), 7, 1});  // the stream ends here
  EXPECT_EQ(memory.floats()[0], 7);
}

}  // namespace
}  // namespace rekindle::device
