// Sample order, transforms and prefetching: the leaves of a run as float batches, in the order asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace rekindle::data {

// The run is one endless stream of samples: position p belongs to epoch p div N, at place p mod N of that
// epoch's permutation, a pure function of (seed, epoch).
class SampleOrder {
 public:
  SampleOrder(std::uint64_t seed, std::size_t count);
  std::size_t sample_at(std::uint64_t position) const;  // thread-safe; keeps the last few permutations
 private:
  struct Cache;
  std::shared_ptr<Cache> cache_;  // shared: copies of one order share its permutations
};

struct TransformConfig {
  int image_size = 28;   // side of the square that the model sees
  bool augment = false;  // cifar10: random crop and flip; off: center crop
};

// One image to normalised floats C x size x size. cifar10: short side resized bilinear (as PIL does) to
// round(size*256/224), random or center crop of `size`, random flip, ImageNet mean and std. mnist: mean
// 0.1307, std 0.3081, resized only if size != 28. `key` seeds this image's draws.
void transform(const DatasetInfo& info, const TransformConfig& config, std::span<const std::uint8_t> image,
               std::uint64_t key, std::span<float> out);

struct LeafBatch {
  std::uint64_t step = 0;
  int leaf = 0;
  std::vector<float> images = {};         // b x C x size x size
  std::vector<std::int64_t> labels = {};  // b
  std::vector<std::size_t> samples = {};  // dataset indices, b
};

struct LoaderConfig {
  std::uint64_t seed = 1;
  int leaves = 8, leaf_batch = 16;  // V, b
  TransformConfig transform;
  int threads = 2;
  int ahead = 0;  // leaves prepared ahead; 0: one step's worth of this rank's leaves, at least 2
};

// Prepares leaves ahead of the step. next() hands them out in order: `first` of `step`, then `leaves` of
// step+1, of step+2, ... A new start() (another generation) throws away what is no longer wanted.
class Loader {
 public:
  Loader(const Dataset& dataset, const LoaderConfig& config);
  ~Loader();
  void start(std::uint64_t step, std::vector<int> leaves, std::vector<int> first);
  void start(std::uint64_t step, const std::vector<int>& leaves) { start(step, leaves, leaves); }
  // The next leaf; blocks until it is ready. The buffer is the caller's; give it back to recycle(). Empty (no
  // images) when stopped or not started, also for a caller that was blocked when another thread stopped.
  LeafBatch next();
  void recycle(LeafBatch batch);
  void stop();  // wakes and parks the threads; start() goes on

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Test images [first, first + count) as one batch, never augmented. They must exist.
LeafBatch test_batch(const Dataset& dataset, const TransformConfig& config, std::size_t first,
                     std::size_t count);

}  // namespace rekindle::data
