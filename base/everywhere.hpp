// Marks a small function that a GPU's kernels and the host both use. Without contraction (no fused
// multiply-add, which the project's build forbids on both), its IEEE operations have the same bits on both.
#pragma once

#if defined(__CUDACC__)
#define REKINDLE_EVERYWHERE __host__ __device__ __forceinline__
#else
#define REKINDLE_EVERYWHERE inline
#endif
