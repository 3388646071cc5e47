#include "device/cuda_images.hpp"
#include "device/cuda_packs.cuh"

namespace rekindle::device {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 1024;  // of the backward kernels, on every GPU: they make the order of additions

// One byte for each element of a pack.
template <class T>
struct alignas(Pack<T>::kSize) Codes {
  std::uint8_t x[Pack<T>::kSize];
};

// The sum as its type can hold it.
template <class T>
__device__ float sum_of(T y, float bias) {
  return to_float(from_float<T>(to_float(y) + bias));
}

template <class T>
struct Images {
  unsigned pixels, width, groups;  // pixels of all images; groups of channels: Pack<T>::kSize each

  unsigned packs() const { return pixels * groups; }
  __device__ unsigned down() const { return width * groups; }
  // The first pack of the 2 x 2 square of an output pixel. Rows of all images count on: y has twice as many.
  __device__ unsigned square(unsigned out_pixel) const {
    const unsigned half = width / 2;
    return (2 * (out_pixel / half) * width + 2 * (out_pixel % half)) * groups;
  }
};

template <class T>
__global__ void relu_kernel(Images<T> s, Pack<T>* y, const float* bias) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= s.pixels * s.groups) return;
  const unsigned channel = i % s.groups * Pack<T>::kSize;
  Pack<T> v = y[i];
  for (unsigned k = 0; k < Pack<T>::kSize; ++k) {
    const float sum = sum_of(v.x[k], bias[channel + k]);
    v.x[k] = from_float<T>(above(sum, 0) ? sum : 0);
  }
  y[i] = v;
}

template <class T>
__global__ void pool_kernel(Images<T> s, const Pack<T>* y, const float* bias, Pack<T>* out, Codes<T>* codes) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= s.pixels / 4 * s.groups) return;
  const unsigned group = i % s.groups, channel = group * Pack<T>::kSize;
  const Pack<T>* const first = y + s.square(i / s.groups) + group;
  const Pack<T> in[4] = {first[0], first[s.groups], first[s.down()], first[s.down() + s.groups]};
  Pack<T> result;
  Codes<T> code;
  for (unsigned k = 0; k < Pack<T>::kSize; ++k) {
    const float b = bias[channel + k];
    float best = sum_of(in[0].x[k], b);
    int at = 0;
    for (int position = 1; position < 4; ++position) {
      const float next = sum_of(in[position].x[k], b);
      if (above(next, best)) {
        best = next;
        at = position;
      }
    }
    const bool passes = above(best, 0);
    result.x[k] = from_float<T>(passes ? best : 0);
    code.x[k] = static_cast<std::uint8_t>(passes ? at : 4);
  }
  out[i] = result;
  codes[i] = code;
}

// Each thread has one group of channels, and adds up what `pass` adds to its sums. The sums of a block become
// one row of `work`.
template <class T, class Pass>
__device__ void pass_all(unsigned pixels, unsigned groups, float* work, const Pass& pass) {
  constexpr unsigned kSize = Pack<T>::kSize;
  __shared__ float sums[kThreads][kSize];
  const unsigned group = threadIdx.x % groups, row = threadIdx.x / groups, rows = kThreads / groups;
  float local[kSize] = {};
  for (unsigned pixel = blockIdx.x * rows + row; pixel < pixels; pixel += kBlocks * rows)
    pass(pixel, group, local);
  for (unsigned k = 0; k < kSize; ++k) sums[threadIdx.x][k] = local[k];
  __syncthreads();
  if (row != 0) return;
  for (unsigned k = 0; k < kSize; ++k) {
    float all = 0;
    for (unsigned r = 0; r < rows; ++r) all += sums[r * groups + group][k];
    work[(blockIdx.x * groups + group) * kSize + k] = all;
  }
}

template <class T>
__global__ void relu_backward_kernel(Images<T> s, const Pack<T>* y, const Pack<T>* dout, Pack<T>* dy,
                                     float* work) {
  pass_all<T>(s.pixels, s.groups, work, [&](unsigned pixel, unsigned group, float* sums) {
    const unsigned i = pixel * s.groups + group;
    const Pack<T> out = y[i];
    Pack<T> d = dout[i];
    for (unsigned k = 0; k < Pack<T>::kSize; ++k) {
      if (!above(to_float(out.x[k]), 0)) d.x[k] = from_float<T>(0);
      sums[k] += to_float(d.x[k]);
    }
    dy[i] = d;
  });
}

template <class T>
__global__ void pool_backward_kernel(Images<T> s, const Codes<T>* codes, const Pack<T>* dout, Pack<T>* dy,
                                     float* work) {
  pass_all<T>(s.pixels / 4, s.groups, work, [&](unsigned pixel, unsigned group, float* sums) {
    const unsigned i = pixel * s.groups + group;
    const Pack<T> d = dout[i];
    const Codes<T> code = codes[i];
    Pack<T>* const first = dy + s.square(pixel) + group;
    for (unsigned position = 0; position < 4; ++position) {
      Pack<T> one;
      for (unsigned k = 0; k < Pack<T>::kSize; ++k)
        one.x[k] = code.x[k] == position ? d.x[k] : from_float<T>(0);
      first[position / 2 * s.down() + position % 2 * s.groups] = one;
    }
    for (unsigned k = 0; k < Pack<T>::kSize; ++k)
      if (code.x[k] < 4) sums[k] += to_float(d.x[k]);
  });
}

constexpr unsigned kChannelsAtOnce = 32, kSlices = 32;

// The sums of the kBlocks rows of `work`.
__global__ void sum_rows_kernel(const float* work, unsigned channels, float* dbias) {
  __shared__ float sums[kSlices][kChannelsAtOnce];
  const unsigned channel = blockIdx.x * kChannelsAtOnce + threadIdx.x;
  float all = 0;
  if (channel < channels) {
    for (unsigned row = threadIdx.y; row < kBlocks; row += kSlices) all += work[row * channels + channel];
  }
  sums[threadIdx.y][threadIdx.x] = all;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (unsigned slice = 1; slice < kSlices; ++slice) all += sums[slice][threadIdx.x];
  dbias[channel] = all;
}

std::size_t packs_of(const ImageShape& shape) {
  const std::size_t size =
      shape.number == Number::kBfloat16 ? Pack<__nv_bfloat16>::kSize : Pack<float>::kSize;
  return shape.images * static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width) *
         static_cast<std::size_t>(shape.channels) / size;
}

template <class T>
Images<T> images_of(const ImageShape& shape) {
  const auto groups = static_cast<unsigned>(shape.channels) / Pack<T>::kSize;
  return {static_cast<unsigned>(packs_of(shape) / groups), static_cast<unsigned>(shape.width), groups};
}

unsigned blocks_for(unsigned threads) { return (threads + kThreads - 1) / kThreads; }

cudaError_t sum_rows(const float* work, int channels, float* dbias, cudaStream_t stream) {
  const auto all = static_cast<unsigned>(channels);
  sum_rows_kernel<<<(all + kChannelsAtOnce - 1) / kChannelsAtOnce, dim3(kChannelsAtOnce, kSlices), 0,
                    stream>>>(work, all, dbias);
  return cudaGetLastError();
}

}  // namespace

bool suits(const ImageShape& shape, bool pools) {
  const int size = shape.number == Number::kBfloat16 ? 8 : 4, groups = shape.channels / size;
  if (shape.channels % size != 0 || groups < 1 || kThreads % static_cast<unsigned>(groups) != 0) return false;
  if (shape.images == 0 || packs_of(shape) >= std::size_t{1} << 31) return false;
  return !pools || (shape.height % 2 == 0 && shape.width % 2 == 0);
}

std::size_t bias_work_bytes(const ImageShape& shape) {
  return kBlocks * static_cast<std::size_t>(shape.channels) * sizeof(float);
}

cudaError_t bias_relu(const ImageShape& shape, void* y, const float* bias, cudaStream_t stream) {
  with_number(shape.number, [&]<class T>(T) {
    const Images<T> s = images_of<T>(shape);
    relu_kernel<T><<<blocks_for(s.packs()), kThreads, 0, stream>>>(s, packs<T>(y), bias);
  });
  return cudaGetLastError();
}

cudaError_t bias_relu_backward(const ImageShape& shape, const void* y, const void* dout, void* dy,
                               float* dbias, float* work, cudaStream_t stream) {
  with_number(shape.number, [&]<class T>(T) {
    relu_backward_kernel<T><<<kBlocks, kThreads, 0, stream>>>(images_of<T>(shape), packs<T>(y),
                                                              packs<T>(dout), packs<T>(dy), work);
  });
  return sum_rows(work, shape.channels, dbias, stream);
}

cudaError_t bias_pool_relu(const ImageShape& shape, const void* y, const float* bias, void* out,
                           std::uint8_t* codes, cudaStream_t stream) {
  with_number(shape.number, [&]<class T>(T) {
    const Images<T> s = images_of<T>(shape);
    pool_kernel<T><<<blocks_for(s.packs() / 4), kThreads, 0, stream>>>(s, packs<T>(y), bias, packs<T>(out),
                                                                       reinterpret_cast<Codes<T>*>(codes));
  });
  return cudaGetLastError();
}

cudaError_t bias_pool_relu_backward(const ImageShape& shape, const std::uint8_t* codes, const void* dout,
                                    void* dy, float* dbias, float* work, cudaStream_t stream) {
  with_number(shape.number, [&]<class T>(T) {
    pool_backward_kernel<T><<<kBlocks, kThreads, 0, stream>>>(
        images_of<T>(shape), reinterpret_cast<const Codes<T>*>(codes), packs<T>(dout), packs<T>(dy), work);
  });
  return sum_rows(work, shape.channels, dbias, stream);
}

}  // namespace rekindle::device
