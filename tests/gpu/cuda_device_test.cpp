#include "device/cuda_device.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "gpu_fixture.hpp"
#include "gpu_memory.hpp"

namespace rekindle::device {
namespace {

using CudaDevice = testing::OnGpu;
using rekindle::testing::free_bytes;

TEST_F(CudaDevice, HasANameAndAnIdentity) {
  EXPECT_FALSE(device->name().empty());
  EXPECT_EQ(device->identity().size(), 32U);
  EXPECT_EQ(open_cuda_device(0).value()->identity(), device->identity());
}

TEST_F(CudaDevice, AGpuThatIsNotThere_IsOneLine) {
  const auto opened = open_cuda_device(77);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ExitCode::kConfig);
  EXPECT_NE(opened.error().what.find("77"), std::string::npos) << opened.error().line();
}

TEST_F(CudaDevice, MemoryIsAlignedZeroAndGivenBack) {
  const std::size_t before = free_bytes();
  {
    const Memory memory = std::move(device->allocate(std::size_t{64} << 20).value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment, 0U);
    const std::vector<float> values = download(memory);
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0F), 0.0F);
    EXPECT_LT(free_bytes(), before);
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(CudaDevice, MoreMemoryThanThereIs_IsAnError_AndTheDeviceGoesOn) {
  const auto refused = device->allocate(std::size_t{1} << 50);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kConfig);
  EXPECT_TRUE(device->allocate(1000));
  EXPECT_TRUE(device->synchronize(*stream));
}

TEST_F(CudaDevice, AnEventGivesTheOrderOfTwoStreams) {
  constexpr std::size_t kFloats = std::size_t{64} << 20;
  const auto other = std::move(device->make_stream().value());
  const auto event = std::move(device->make_event().value());
  EXPECT_TRUE(device->is_over(*event).value());
  const Memory a = std::move(device->allocate(kFloats * sizeof(float)).value()),
               b = std::move(device->allocate(kFloats * sizeof(float)).value());
  for (int i = 1; i <= 20; ++i) {
    const auto value = static_cast<float>(i);
    device->run(*stream, Fill{a.floats().data(), value, kFloats});
    device->record(*stream, *event);
    device->wait(*other, *event);
    device->copy(*other, b.data(), a.data(), a.bytes());
    device->record(*other, *event);
    device->wait(*stream, *event);
  }
  ASSERT_TRUE(device->synchronize(*event));
  EXPECT_TRUE(device->is_over(*event).value());
  const std::vector<float> values = download(b);
  EXPECT_EQ(values.front(), 20.0F);
  EXPECT_EQ(values.back(), 20.0F);
}

TEST_F(CudaDevice, LockingTwiceDoesNoHarm) {
  std::vector<std::byte> memory(1 << 20);
  EXPECT_TRUE(device->lock(memory));
  EXPECT_TRUE(device->lock(memory));
  device->unlock(memory);
  device->unlock(memory);
  EXPECT_TRUE(device->synchronize(*stream));
}

}  // namespace
}  // namespace rekindle::device
