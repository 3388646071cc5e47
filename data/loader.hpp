// Sample order and prefetching: the micro-batches of a run, in the requested order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.hpp"
#include "data/not_yet.hpp"

namespace rekindle::data {

// The run is one endless stream of samples: position p belongs to epoch p div N, at place p mod N of that
// epoch's permutation, a pure function of (seed, epoch).
class SampleOrder {
 public:
  SampleOrder(std::uint64_t seed, std::size_t count);
  // Thread-safe. Keeps the permutations of two epochs, of 4 bytes a sample each.
  std::size_t sample_at(std::uint64_t position) const;

 private:
  struct Cache;
  std::shared_ptr<Cache> cache_;  // copies of a SampleOrder share the permutations
};

struct LoaderConfig {
  std::uint64_t seed = 1;
  int micro_batches = 8;  // in a step
  int samples = 16;       // in a micro-batch
  TransformConfig transform;
  int threads = 2;  // 0: next() prepares its micro-batch itself
  int ahead =
      0;  // micro-batches to prepare ahead; 0: as many as this rank has per step, or as threads, at least 2
};

// Prepares micro-batches ahead of the step. next() returns them in order: `first` of `step`, then
// `micro_batches` of step+1, of step+2, ... A new start() (another generation) discards the micro-batches of
// the old order.
class Loader {
 public:
  Loader(const Dataset& dataset, const LoaderConfig& config);
  ~Loader();
  void start(std::uint64_t step, std::vector<int> micro_batches, std::vector<int> first);
  void start(std::uint64_t step, const std::vector<int>& micro_batches) {
    start(step, micro_batches, micro_batches);
  }
  // The next micro-batch; blocks until it is ready. The caller owns the buffer and should pass it to
  // recycle(). Empty if the loader is stopped or not started, or was stopped by another thread while the
  // caller waited. An error if one of its samples cannot be read: the files have changed or the storage
  // fails; or if a thread could not be made. After `limit`, so that a read that hangs does not hold the
  // caller: an error of kind kNotYet, and the next call waits for the same micro-batch. Without threads, the
  // caller reads, and `limit` has no effect.
  Result<Batch> next(std::chrono::milliseconds limit = kNoLimit);
  // The same without waiting; nullopt: it is not ready, or cannot be used (next() has the error). Never ready
  // without threads.
  std::optional<Batch> next_if_ready();
  void recycle(Batch batch);
  void stop();  // wakes blocked callers and pauses the threads; start() resumes them

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rekindle::data
