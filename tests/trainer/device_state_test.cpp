#include "trainer/device_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "device/host_device.hpp"
#include "device_state_check.hpp"
#include "trainer/gradient_memory.hpp"

namespace rekindle::trainer {
namespace {

struct OnTwin : ::testing::Test {
  const std::unique_ptr<device::HostDevice> device = device::make_host_device();
  const std::unique_ptr<device::Stream> stream = std::move(device->make_stream().value());
  const device::Place place{device.get(), stream.get()};
};

using DeviceStates = OnTwin;

TEST_F(DeviceStates, HaveTheBitsOfTheHost) { testing::check_all(place); }

TEST_F(DeviceStates, MicroBatchesThatDisagreeAboutACounter_AreAnError) {
  testing::Pair pair({.micro_batches = testing::kMicroBatches}, place);
  ASSERT_TRUE(pair.update(0, 1 << 20));
  const Status disagree = pair.update(1, 1 << 20, testing::kCount + 1, false);
  ASSERT_FALSE(disagree);
  EXPECT_EQ(disagree.error().code, ExitCode::kConfig);
  EXPECT_THAT(disagree.error().what, ::testing::HasSubstr("count"));
}

// A checkpoint reads the copy while the next update is made.
TEST_F(DeviceStates, AnUpdateDoesNotChangeTheCopy) {
  testing::Pair pair({.optimizer = {.name = "adam"}, .average = 0.9, .micro_batches = testing::kMicroBatches},
                     place);
  ASSERT_TRUE(pair.update(0, 1 << 20));
  ASSERT_TRUE(pair.device->download());
  const Hash128 before = checkpoint::state_digest(0, pair.device->state());
  ASSERT_TRUE(pair.update(1, 1 << 20));
  EXPECT_EQ(checkpoint::state_digest(0, pair.device->state()), before);
  EXPECT_TRUE(pair.equal());
}

TEST_F(DeviceStates, NoMemoryStaysBehind) {
  { testing::Pair pair({.micro_batches = testing::kMicroBatches}, place); }
  EXPECT_EQ(device->bytes_taken(), 0U);
}

struct Digests : OnTwin {
  const UpdateOptions options{
      .optimizer = {.name = "adam"}, .average = 0.9, .micro_batches = testing::kMicroBatches};
  testing::Pair pair{options, place};

  Digests() {
    for (std::uint64_t step = 0; step < 2; ++step) EXPECT_TRUE(pair.update(step, 1 << 20));
    EXPECT_TRUE(device->synchronize(*stream));
  }
  static void flip(float& value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits ^= 1U;
    std::memcpy(&value, &bits, sizeof bits);
  }
};

TEST_F(Digests, ATrainerThatGotTheState_HasTheSame) {
  const auto joined = DeviceState::make(pair.layout, options, place).value();
  EXPECT_NE(joined->digest().value(), pair.device->digest().value());
  ASSERT_TRUE(pair.device->download());
  const checkpoint::State from = pair.device->state(), to = joined->state();
  for (std::size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i].bytes, to[i].bytes.begin());
  ASSERT_TRUE(joined->upload());
  EXPECT_EQ(joined->digest().value(), pair.device->digest().value());
}

TEST_F(Digests, OneBitOfAnyTensor_IsAnotherOne) {
  const Hash128 before = pair.device->digest().value();
  for (const std::span<float> arena : {pair.device->values(), pair.device->average()}) {
    for (const std::size_t tensor : {testing::kW, testing::kB, testing::kMean}) {
      for (const std::size_t at : {pair.at(tensor).offset, pair.at(tensor).end() - 1}) {
        flip(arena[at]);
        EXPECT_NE(pair.device->digest().value(), before) << tensor;
        flip(arena[at]);
      }
    }
  }
  // With the optimizer's tensors.
  ASSERT_TRUE(pair.device->download());
  for (const checkpoint::Tensor& tensor : pair.device->state()) {
    for (const std::size_t at : {std::size_t{0}, tensor.bytes.size() - 1}) {
      tensor.bytes[at] ^= std::byte{1};
      ASSERT_TRUE(pair.device->upload());
      EXPECT_NE(pair.device->digest().value(), before) << tensor.spec.name;
      tensor.bytes[at] ^= std::byte{1};
    }
  }
  ASSERT_TRUE(pair.device->upload());
  std::swap(pair.device->values()[pair.at(testing::kW).offset],
            pair.device->values()[pair.at(testing::kW).offset + 1]);
  EXPECT_NE(pair.device->digest().value(), before) << "the position counts";
  std::swap(pair.device->values()[pair.at(testing::kW).offset],
            pair.device->values()[pair.at(testing::kW).offset + 1]);
  EXPECT_EQ(pair.device->digest().value(), before);
}

TEST_F(Digests, PaddingDoesNotCount) {
  const Hash128 before = pair.device->digest().value();
  ASSERT_LT(pair.at(testing::kB).end(), pair.at(testing::kMean).offset);
  pair.device->values()[pair.at(testing::kB).end()] = NAN;
  EXPECT_EQ(pair.device->digest().value(), before);
}

struct GradientMemories : OnTwin {
  device::Memory filled(std::uint64_t seed, std::size_t floats) {
    device::Memory memory = std::move(device->allocate(floats * sizeof(float)).value());
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : memory.floats()) value = normal(random);
    return memory;
  }
};

TEST_F(GradientMemories, AddCopyAndRead_InTheStreamsOrder) {
  GradientMemory gradients(place);
  const device::Memory a = filled(1, 1000), b = filled(2, 1000);
  const float sum = a.floats()[5] + b.floats()[5];
  gradients.add(a.floats(), b.floats());
  gradients.copy(b.floats(), a.floats());
  const auto values = gradients.on_host(b.floats());
  ASSERT_TRUE(values);
  EXPECT_EQ((*values)[5], sum);
}

TEST_F(GradientMemories, TheNormDoesNotDependOnThePieces) {
  constexpr std::size_t kFloats = 200'000;
  GradientMemory gradients(place), on_host({});
  const device::Memory memory = filled(3, kFloats);
  const std::span<const float> all = memory.floats();
  const FloatRange range{16, kFloats - 32};
  const auto whole = gradients.norm({{0, all}}, range);
  ASSERT_TRUE(whole);
  for (const std::size_t cut : {std::size_t{16}, std::size_t{65'552}, std::size_t{131'072}}) {
    const auto pieces = gradients.norm({{0, all.first(cut)}, {cut, all.subspan(cut)}}, range);
    ASSERT_TRUE(pieces);
    EXPECT_EQ(*pieces, *whole) << cut;
  }
  EXPECT_NEAR(*whole, on_host.norm({{0, all}}, range).value(), 1e-9 * *whole);
}

}  // namespace
}  // namespace rekindle::trainer
