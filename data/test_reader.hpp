// Test samples for an evaluation, read and decoded by several threads at once.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::data {

class TestReader {
 public:
  // `threads`: besides the caller's own; they begin with the first read(). Images are never augmented.
  TestReader(const Dataset& dataset, int image_size, int threads);
  ~TestReader();

  // Test samples [first, first + count) as one batch, for one caller at a time. They must exist. Errors: as
  // of Dataset::read(), the one of the first sample that has one; too little memory.
  Result<Batch> read(std::size_t first, std::size_t count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rekindle::data
