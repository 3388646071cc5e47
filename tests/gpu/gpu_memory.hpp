// What is left of the memory of this thread's GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace rekindle::testing {

inline std::size_t free_bytes() {
  std::size_t free = 0, all = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  return free;
}

}  // namespace rekindle::testing
