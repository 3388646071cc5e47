// Updates a state on a device and one in host memory alike, and compares them bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "checkpoint/chunks.hpp"
#include "trainer/buffer_proof.hpp"
#include "trainer/device_state.hpp"

namespace rekindle::trainer::testing {

inline constexpr int kMicroBatches = 4;

// Two parameters, a float32 buffer and a counter.
inline const checkpoint::StateSpec& tensors() {
  using checkpoint::Dtype, checkpoint::Role;
  static const checkpoint::StateSpec all = {{"w", Dtype::kFloat32, {2000}, Role::kParameter},
                                            {"b", Dtype::kFloat32, {3}, Role::kParameter},
                                            {"mean", Dtype::kFloat32, {5}, Role::kBuffer},
                                            {"count", Dtype::kInt64, {}, Role::kBuffer}};
  return all;
}
enum Index : std::size_t { kW, kB, kMean, kCount };

class Pair {
 public:
  Pair(const UpdateOptions& options, device::Place place)
      : layout(tensors()),
        place(place),
        host(std::move(HostState::make(layout, options).value())),
        device(std::move(DeviceState::make(layout, options, place).value())),
        sums_(std::move(place.device->allocate(layout.floats() * sizeof(float)).value())),
        count_(std::move(place.device->allocate(sizeof(std::int64_t)).value())) {
    std::mt19937_64 random(7);
    std::normal_distribution<float> normal;
    for (const std::size_t i : {kW, kB, kMean})
      for (std::size_t e = 0; e < at(i).floats; ++e) host->values()[at(i).offset + e] = normal(random);
    const checkpoint::State from = host->state(), to = device->state();
    for (std::size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i].bytes, to[i].bytes.begin());
    EXPECT_TRUE(device->upload());
  }

  const TensorPlace& at(std::size_t i) const { return layout.tensors()[i]; }

  // Of a step in which all tensors changed, but `without`. Some micro-batches count otherwise if `agree` is
  // false.
  Status update(std::uint64_t step, std::size_t piece, std::size_t without = kCount + 1, bool agree = true) {
    std::mt19937_64 random(step);
    std::normal_distribution<float> normal;
    std::vector<float> sum(layout.floats());
    for (std::size_t i = 0; i < tensors().size(); ++i) sum[i] = i == without ? 0 : kMicroBatches;
    for (const std::size_t i : {kW, kB, kMean})
      for (std::size_t e = 0; e < at(i).floats; ++e) sum[at(i).offset + e] = normal(random);
    const auto counted = static_cast<std::int64_t>(step) + 1;
    std::array<float, kProofFloats> proof{};
    for (int m = 0; m < kMicroBatches; ++m) {
      const std::int64_t value = agree || m > 0 ? counted : counted + 1;
      write_proof(std::as_bytes(std::span(&value, 1)), proof);
      for (std::size_t i = 0; i < kProofFloats; ++i) sum[at(kCount).offset + i] += proof[i];
    }
    // The old sums are in use until here, and so is `sum` until the end.
    place.device->copy(*place.stream, sums_.data(), sum.data(), sum.size() * sizeof(float));
    place.device->copy(*place.stream, count_.data(), &counted, sizeof counted);
    host->propose(kCount, std::as_bytes(std::span(&counted, 1)));
    device->propose(kCount, {static_cast<const std::byte*>(count_.data()), sizeof counted});
    const optim::Step of{.number = step, .scale = 1.0F / kMicroBatches, .learning_rate = 0.05};
    for (std::size_t first = 0; first < sum.size(); first += piece) {
      const std::size_t size = std::min(piece, sum.size() - first);
      host->update(first, std::span(sum).subspan(first, size), of);
      device->update(first, sums_.floats().subspan(first, size), of);
    }
    const Status on_host = host->finish_update();
    Status on_device = device->finish_update();
    EXPECT_TRUE(place.device->synchronize(*place.stream));
    EXPECT_EQ(on_host.has_value(), on_device.has_value());
    return on_device;
  }

  bool equal() {
    EXPECT_TRUE(device->download());
    return checkpoint::state_digest(0, host->state()) == checkpoint::state_digest(0, device->state());
  }

  const StateLayout layout;
  const device::Place place;
  const std::unique_ptr<HostState> host;
  const std::unique_ptr<DeviceState> device;

 private:
  device::Memory sums_, count_;
};

inline std::vector<UpdateOptions> options_to_check() {
  std::vector<UpdateOptions> all;
  for (const optim::Options& optimizer : std::vector<optim::Options>{{.weight_decay = 5e-4},
                                                                     {.weight_decay = 5e-4, .momentum = 0.9},
                                                                     {.momentum = 0.9, .nesterov = true},
                                                                     {.name = "adam", .weight_decay = 1e-2},
                                                                     {.name = "adamw", .weight_decay = 1e-2},
                                                                     {.name = "adadelta"},
                                                                     {.name = "rmsprop"},
                                                                     {.name = "rmsprop", .momentum = 0.9}})
    for (const double average : {0.0, 0.9})
      all.push_back({.optimizer = optimizer,
                     .groups = {{.lr_scale = 0.5}, {.decays = false}},
                     .average = average,
                     .micro_batches = kMicroBatches});
  return all;
}

// Every optimizer, with and without an average, in pieces of several sizes.
inline void check_all(device::Place place) {
  for (const UpdateOptions& options : options_to_check()) {
    for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{48}}) {
      Pair pair(options, place);
      EXPECT_TRUE(pair.equal());
      for (std::uint64_t step = 0; step < 4; ++step) {
        ASSERT_TRUE(pair.update(step, piece, step == 2 ? kB : kCount + 1));
        EXPECT_TRUE(pair.equal()) << options.optimizer.name << ", momentum " << options.optimizer.momentum
                                  << ", average " << options.average << ", pieces of " << piece << ", step "
                                  << step;
      }
    }
  }
}

}  // namespace rekindle::trainer::testing
