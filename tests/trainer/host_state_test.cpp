#include "trainer/host_state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "checkpoint/chunks.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::trainer {
namespace {

using checkpoint::Dtype;
using checkpoint::Role;

// Two parameters, a float32 buffer and a counter.
const checkpoint::StateSpec kTensors = {{"w", Dtype::kFloat32, {20}, Role::kParameter},
                                        {"b", Dtype::kFloat32, {3}, Role::kParameter},
                                        {"mean", Dtype::kFloat32, {5}, Role::kBuffer},
                                        {"count", Dtype::kInt64, {}, Role::kBuffer}};
enum Index : std::size_t { kW, kB, kMean, kCount };
constexpr int kMicroBatches = 4;

struct Fixture {
  explicit Fixture(UpdateOptions options = {}) : layout(kTensors) {
    options.micro_batches = kMicroBatches;
    state = std::move(HostState::make(layout, options).value());
    sum.resize(layout.floats());
    for (std::size_t i : {kW, kB})
      for (std::size_t e = 0; e < place(i).floats; ++e) values()[place(i).offset + e] = 1;
    got(kW), got(kB);
  }

  const TensorPlace& place(std::size_t i) const { return layout.tensors()[i]; }
  std::span<float> values() { return state->values(); }
  float value(std::size_t i) { return values()[place(i).offset]; }
  // All micro-batches have a gradient for the tensor, or new values of the buffer.
  void got(std::size_t i, float flag = kMicroBatches) { sum[i] = flag; }
  void fill(std::size_t i, float value) {
    std::fill_n(sum.begin() + static_cast<std::ptrdiff_t>(place(i).offset), place(i).floats, value);
  }
  void count(std::int64_t of_one, std::int64_t of_others) {
    got(kCount);
    fill(kCount, 0);
    std::array<float, kProofFloats> proof{};
    for (int m = 0; m < kMicroBatches; ++m) {
      const std::int64_t value = m == 0 ? of_one : of_others;
      write_proof(std::as_bytes(std::span(&value, 1)), proof);
      for (std::size_t i = 0; i < kProofFloats; ++i) sum[place(kCount).offset + i] += proof[i];
    }
    counted = of_one;
    state->propose(kCount, std::as_bytes(std::span(&counted, 1)));
  }
  std::int64_t counter() {
    std::int64_t value = 0;
    std::memcpy(&value, state->value_of(place(kCount)).data(), sizeof value);
    return value;
  }
  Status update(std::uint64_t step = 0, std::size_t piece = 1 << 20) {
    for (std::size_t first = 0; first < sum.size(); first += piece)
      state->update(first, std::span(sum).subspan(first, std::min(piece, sum.size() - first)),
                    {.number = step, .scale = 1.0F / kMicroBatches, .learning_rate = 0.5});
    return state->finish_update();
  }
  Hash128 digest() { return checkpoint::state_digest(0, state->state()); }

  StateLayout layout;
  std::unique_ptr<HostState> state;
  std::vector<float> sum;
  std::int64_t counted = 0;
};

TEST(BufferProof, OnlyEqualValuesAgree) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{4096}}) {
    std::array<float, kProofFloats> sum{}, proof{};
    const std::int64_t one = 7, other = 8;
    write_proof(std::as_bytes(std::span(&one, 1)), proof);
    for (std::size_t i = 0; i < kProofFloats; ++i) sum[i] = static_cast<float>(count) * proof[i];
    EXPECT_TRUE(all_agree(sum, count));
    if (count == 1) continue;
    std::array<float, kProofFloats> second{};
    write_proof(std::as_bytes(std::span(&other, 1)), second);
    for (std::size_t i = 0; i < kProofFloats; ++i) sum[i] += second[i] - proof[i];
    EXPECT_FALSE(all_agree(sum, count)) << count;
  }
}

TEST(HostState, ParametersTakeTheOptimizersStep) {
  Fixture f;
  f.fill(kW, 4), f.fill(kB, 8);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.value(kW), 0.5F);  // 1 - 0.5 * 4 / 4
  EXPECT_EQ(f.value(kB), 0.0F);
}

TEST(HostState, AParameterWithoutAnyGradientStaysAsItIs) {
  UpdateOptions options;
  options.optimizer = {.name = "adamw", .weight_decay = 0.1};
  Fixture f(options), all(options);
  for (Fixture* each : {&f, &all}) each->fill(kW, 4), each->fill(kB, 4);
  f.got(kB, 0);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.value(kB), 1.0F) << "weight decay included";
  // One micro-batch is enough; and its first update is number 1, as torch.optim counts for each parameter.
  f.got(kB, 1);
  ASSERT_TRUE(f.update(1));
  ASSERT_TRUE(all.update());
  EXPECT_EQ(f.value(kB), all.value(kB));
  EXPECT_NE(f.value(kW), all.value(kW));
}

TEST(HostState, GroupsHaveTheirOwnRateAndDecay) {
  UpdateOptions options;
  options.optimizer = {.weight_decay = 0.25};
  options.groups = {{.lr_scale = 0.5}, {.decays = false}};
  Fixture f(options);
  f.fill(kW, 4), f.fill(kB, 4);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.value(kW), 1 - 0.25F * (1 + 0.25F));
  EXPECT_EQ(f.value(kB), 0.5F);
}

TEST(HostState, AChangedBufferBecomesTheMean_AnotherKeepsItsBits) {
  Fixture f;
  f.fill(kMean, 10);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.value(kMean), 0.0F);
  f.got(kMean, 1);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.value(kMean), 2.5F);
}

TEST(HostState, ACounterOnWhichAllAgreeIsTaken_OthersAreRefused) {
  Fixture f;
  f.count(7, 7);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.counter(), 7);
  f.count(9, 8);
  const Status refused = f.update();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kConfig);
  EXPECT_NE(refused.error().what.find("buffer count (int64)"), std::string::npos) << refused.error().what;
  EXPECT_EQ(f.counter(), 7);
}

TEST(HostState, TheAverageBeginsWithTheFirstUpdateAndFollows) {
  UpdateOptions options;
  options.average = 0.75;
  Fixture f(options);
  f.fill(kW, 4);
  ASSERT_TRUE(f.update());
  EXPECT_EQ(f.state->average()[f.place(kW).offset], 0.5F);
  ASSERT_TRUE(f.update(1));
  EXPECT_EQ(f.value(kW), 0.0F);
  EXPECT_EQ(f.state->average()[f.place(kW).offset], 0.375F);
}

TEST(HostState, PiecesOfAnySizeHaveTheSameBits) {
  UpdateOptions options;
  options.optimizer = {.name = "adam"};
  options.average = 0.9;
  const auto digest_with = [&](std::size_t piece) {
    Fixture f(options);
    for (std::uint64_t step = 0; step < 3; ++step) {
      f.fill(kW, 4 + static_cast<float>(step)), f.fill(kB, 0.3F);
      f.got(kMean), f.fill(kMean, static_cast<float>(step));
      f.count(static_cast<std::int64_t>(step), static_cast<std::int64_t>(step));
      EXPECT_TRUE(f.update(step, piece));
    }
    return f.digest();
  };
  for (const std::size_t piece : {16, 32, 48}) EXPECT_EQ(digest_with(piece), digest_with(1 << 20)) << piece;
}

TEST(HostState, EveryTensorOfTheStateIsInAnArena) {
  UpdateOptions options;
  options.optimizer = {.name = "adam"};
  options.average = 0.9;
  Fixture f(options);
  std::vector<std::string> names;
  for (const checkpoint::Tensor& tensor : f.state->state()) {
    names.push_back(tensor.spec.name);
    EXPECT_NE(begin_in_arena(tensor.bytes, f.state->arenas()), kNowhere) << tensor.spec.name;
    EXPECT_EQ(tensor.bytes.size(), tensor.spec.bytes()) << tensor.spec.name;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"w", "b", "mean", "count", "exp_avg.w", "exp_avg.b", "exp_avg_sq.w",
                                      "exp_avg_sq.b", "ema.w", "ema.b", "ema.mean", "updates"}));
}

}  // namespace
}  // namespace rekindle::trainer
