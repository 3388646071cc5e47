// What the tests of a replica share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "checkpoint/chunks.hpp"
#include "model/model.hpp"

namespace rekindle::model {

constexpr int kImages = 4;
inline const std::atomic<bool> kGoOn{false};

struct Batch {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
};

inline Batch random_batch(const ModelConfig& config, std::uint64_t key) {
  Rng rng(key);
  Batch batch;
  const int floats = kImages * config.channels * config.image_size * config.image_size;
  for (int i = 0; i < floats; ++i) batch.images.push_back(rng.unit() * 4 - 2);
  for (int i = 0; i < kImages; ++i)
    batch.labels.push_back(static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(config.classes))));
  return batch;
}

inline std::unique_ptr<Replica> make(const ModelConfig& config) {
  return std::move(Replica::make(config).value());
}

inline std::vector<float> leaf(Replica& replica, const Batch& batch, std::uint64_t dropout_key = 7) {
  // Garbage, so that what is not overwritten shows.
  std::vector<float> gradient(replica.layout().floats(), std::numeric_limits<float>::quiet_NaN());
  const auto result =
      replica.train({.images = batch.images, .labels = batch.labels}, dropout_key, gradient, kGoOn);
  EXPECT_TRUE(result) << result.error().line();
  return gradient;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline Hash128 digest(Replica& replica) { return checkpoint::state_digest(0, replica.state()); }

// GoogleTest's own print has addresses in it, and would put them into the names that ctest shows.
inline void PrintTo(const ModelConfig& config, std::ostream* out) { *out << config.model; }

// Both models, at sizes for a quick test.
inline const ModelConfig kMnist = {.model = "mnist-cnn", .channels = 1, .image_size = 28};
inline const ModelConfig kVgg = {.image_size = 32};

// replica_bits_test.cpp, once for each model: VGG11's gradients are half a gigabyte, so it has a program of
// its own.
class EachModel : public testing::TestWithParam<ModelConfig> {};

}  // namespace rekindle::model
