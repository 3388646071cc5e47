// Compiled with -fmad=false: no fused multiply-adds, so the bits are those of the host.
#include "device/cuda_kernels.hpp"

#include <algorithm>

#include "optim/average.hpp"

namespace rekindle::device {
namespace {

constexpr int kThreads = 256;

__device__ void element(const Fill& k, std::size_t i) { k.to[i] = k.value; }
__device__ void element(const AddInto& k, std::size_t i) { k.to[i] = k.to[i] + k.from[i]; }
__device__ void element(const Scale& k, std::size_t i) { k.to[i] = k.factor * k.from[i]; }
__device__ void element(const MoveTowards& k, std::size_t i) {
  k.to[i] = optim::moved_towards(k.to[i], k.from[i], k.weight);
}
__device__ void element(const TreeSum& k, std::size_t i) { k.to[i] = tree_sum(k, i); }

// An Update with the type of its formula.
template <class Formula>
struct UpdateBy {
  Formula formula;
  float *parameters, *a, *b;
  const float* sum;
  std::size_t count;
};
template <class Formula>
__device__ void element(const UpdateBy<Formula>& k, std::size_t i) {
  static_assert(Formula::kStates <= 2, "a formula with more states needs a branch here");
  if constexpr (Formula::kStates == 0) k.formula(k.parameters[i], k.sum[i]);
  if constexpr (Formula::kStates == 1) k.formula(k.parameters[i], k.a[i], k.sum[i]);
  if constexpr (Formula::kStates == 2) k.formula(k.parameters[i], k.a[i], k.b[i], k.sum[i]);
}

template <class K>
__global__ void each_element(const __grid_constant__ K kernel) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < kernel.count) element(kernel, i);
}

__global__ void each_sum(const __grid_constant__ SquaresInto kernel) {
  add_squares(kernel, std::size_t{blockIdx.x} * blockDim.x + threadIdx.x);
}

__global__ void each_piece(const __grid_constant__ Pieces kernel) {
  const Pieces::Piece& piece = kernel.piece[blockIdx.x];
  for (std::uint32_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
    if (piece.scaled)
      piece.to[i] = kernel.factor * piece.from[i];
    else
      reinterpret_cast<std::uint32_t*>(piece.to)[i] = reinterpret_cast<const std::uint32_t*>(piece.from)[i];
  }
}

// The sum of a value of each thread of a warp, in its first one.
__device__ std::uint64_t sum_of_warp(std::uint64_t value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_down_sync(0xffffffffU, static_cast<unsigned long long>(value), distance);
  return value;
}

__global__ void each_word(const __grid_constant__ DigestInto kernel) {
  std::uint64_t a = 0, b = 0;
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x, words = kernel.words();
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += threads)
    add_word(kernel, i, a, b);
  a = sum_of_warp(a);
  b = sum_of_warp(b);
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(kernel.sums), static_cast<unsigned long long>(a));
  atomicAdd(reinterpret_cast<unsigned long long*>(kernel.sums + 1), static_cast<unsigned long long>(b));
}

template <class K>
cudaError_t start(const K& kernel, cudaStream_t stream) {
  if (kernel.count == 0) return cudaSuccess;
  const std::size_t blocks = (kernel.count + kThreads - 1) / kThreads;
  each_element<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(kernel);
  return cudaGetLastError();
}

cudaError_t start(const SquaresInto& kernel, cudaStream_t stream) {
  each_sum<<<kNormSums / kThreads, kThreads, 0, stream>>>(kernel);
  return cudaGetLastError();
}

cudaError_t start(const Pieces& kernel, cudaStream_t stream) {
  if (kernel.pieces == 0) return cudaSuccess;
  each_piece<<<static_cast<unsigned>(kernel.pieces), kThreads, 0, stream>>>(kernel);
  return cudaGetLastError();
}

cudaError_t start(const DigestInto& kernel, cudaStream_t stream) {
  constexpr std::size_t kMostBlocks = 2048;  // as many as the largest GPUs run at a time
  if (kernel.bytes == 0) return cudaSuccess;
  const std::size_t blocks = std::min(kMostBlocks, (kernel.words() + kThreads - 1) / kThreads);
  each_word<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(kernel);
  return cudaGetLastError();
}

cudaError_t start(const Update& k, cudaStream_t stream) {
  return std::visit(
      [&](const auto& formula) {
        return start(UpdateBy<std::decay_t<decltype(formula)>>{formula, k.parameters, k.states[0],
                                                               k.states[1], k.sum, k.count},
                     stream);
      },
      k.formula);
}

}  // namespace

cudaError_t launch(const Kernel& kernel, cudaStream_t stream) {
  return std::visit([stream](const auto& each) { return start(each, stream); }, kernel);
}

cudaError_t kernels_fit() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, each_element<AddInto>);
}

}  // namespace rekindle::device
