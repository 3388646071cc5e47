// A state in arenas, like the state of a replica.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "base/random.hpp"
#include "checkpoint/state.hpp"
#include "trainer/arenas.hpp"

namespace rekindle::trainer {

// Two arenas of the same tensors, with padding between the tensors, and a separate buffer.
class ArenaStateTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kArenaFloats = 1 << 20;
  ArenaStateTest() : arenas_(2, std::vector<float>(kArenaFloats)), buffer_(16) {
    Rng rng(stream_key(3, Draws::kInit));
    for (auto& arena : arenas_) {
      for (float& value : arena) value = static_cast<float>(rng.next());
    }
    for (std::size_t a = 0; a < 2; ++a) {
      add("small", {7, 3}, arenas_[a].data());
      add("large", {700, 1000}, arenas_[a].data() + 32);
      add("row", {1, 300000}, arenas_[a].data() + 700032);
    }
    state_.push_back({{"buffer", checkpoint::Dtype::kFloat32, {16}, checkpoint::Role::kBuffer},
                      std::as_writable_bytes(std::span(buffer_))});
  }
  void add(const char* name, std::vector<std::int64_t> shape, float* at) {
    checkpoint::TensorSpec spec{name, checkpoint::Dtype::kFloat32, std::move(shape),
                                checkpoint::Role::kParameter};
    const std::size_t bytes = spec.bytes();
    state_.push_back({std::move(spec), {reinterpret_cast<std::byte*>(at), bytes}});
  }
  Arenas arenas() const {
    return {std::as_bytes(std::span(arenas_[0])), std::as_bytes(std::span(arenas_[1]))};
  }

  std::vector<std::vector<float>> arenas_;
  std::vector<float> buffer_;
  checkpoint::State state_;
};

}  // namespace rekindle::trainer
