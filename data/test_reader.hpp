// Test samples for an evaluation, read and decoded by several threads at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/result.hpp"
#include "data/dataset.hpp"
#include "data/not_yet.hpp"

namespace rekindle::data {

class TestReader {
 public:
  // `threads` read, which begin with the first read(); 0: the caller does. Images are never augmented. The
  // key of a sample depends on its index alone.
  TestReader(const Dataset& dataset, int image_size, int threads);
  ~TestReader();

  // Test samples [first, first + count) as one batch, for one caller at a time. They must exist. Errors: as
  // of Dataset::read(), the one of the first sample that has one; too little memory, or no thread to be had.
  // After `limit`, if threads read: an error of kind kNotYet, and the same call waits further.
  Result<Batch> read(std::size_t first, std::size_t count, std::chrono::milliseconds limit = kNoLimit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rekindle::data
