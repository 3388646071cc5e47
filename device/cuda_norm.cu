#include "device/cuda_norm.hpp"
#include "device/cuda_packs.cuh"

namespace rekindle::device {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 1024, kPixelsOfAThread = 16;  // of sums: they make the order of additions

// A block has some groups of channels (Pack<T>::kSize each), and rows of threads for them. Each thread keeps
// to its group, and goes through pixels.
struct Columns {
  unsigned pixels = 0, groups = 0, block_groups = 0;

  __host__ __device__ unsigned rows() const { return kThreads / block_groups; }
  dim3 blocks(unsigned most, unsigned pixels_of_a_thread) const {
    const unsigned each = rows() * pixels_of_a_thread, needed = (pixels + each - 1) / each;
    return {needed < most ? needed : most, groups / block_groups};
  }
  __device__ unsigned group() const { return blockIdx.y * block_groups + threadIdx.x % block_groups; }
  __device__ unsigned first_pixel() const { return blockIdx.x * rows() + threadIdx.x / block_groups; }
  __device__ unsigned step() const { return gridDim.x * rows(); }
};

template <class T>
Columns columns_of(const NormShape& shape) {
  const auto groups = static_cast<unsigned>(shape.channels) / Pack<T>::kSize;
  return {static_cast<unsigned>(shape.pixels), groups, groups < kThreads ? groups : kThreads};
}

template <class T>
dim3 sum_blocks(const NormShape& shape) {
  return columns_of<T>(shape).blocks(kMostBlocks, kPixelsOfAThread);
}

// The values of a thread's channels.
template <class T>
struct Channels {
  float x[Pack<T>::kSize];

  __device__ Channels(const float* values, unsigned group) {
    for (unsigned k = 0; k < Pack<T>::kSize; ++k) x[k] = values[group * Pack<T>::kSize + k];
  }
};

// Row blockIdx.x of `work`, [blocks, 2, channels], gets the block's sums of what each thread has.
template <class T>
__device__ void store_sums(const Columns& s, const float (&local)[2][Pack<T>::kSize], float* work) {
  constexpr unsigned kSize = Pack<T>::kSize;
  __shared__ float sums[2][kSize][kThreads];
  for (unsigned j = 0; j < 2; ++j)
    for (unsigned k = 0; k < kSize; ++k) sums[j][k][threadIdx.x] = local[j][k];
  __syncthreads();
  if (threadIdx.x >= s.block_groups) return;
  const unsigned channels = s.groups * kSize;
  for (unsigned j = 0; j < 2; ++j) {
    for (unsigned k = 0; k < kSize; ++k) {
      float all = 0;
      for (unsigned row = 0; row < s.rows(); ++row) all += sums[j][k][row * s.block_groups + threadIdx.x];
      work[(blockIdx.x * 2 + j) * channels + s.group() * kSize + k] = all;
    }
  }
}

// Of x - pivot and its square. The pivot, the channel's first value, keeps the numbers small where the mean
// is far from zero.
template <class T>
__global__ void moments_kernel(Columns s, const Pack<T>* x, float* work) {
  constexpr unsigned kSize = Pack<T>::kSize;
  const unsigned group = s.group();
  const Pack<T> pivot = x[group];
  float sums[2][kSize] = {};
#pragma unroll 4
  for (unsigned pixel = s.first_pixel(); pixel < s.pixels; pixel += s.step()) {
    const Pack<T> in = x[pixel * s.groups + group];
    for (unsigned k = 0; k < kSize; ++k) {
      const float d = to_float(in.x[k]) - to_float(pivot.x[k]);
      sums[0][k] += d;
      sums[1][k] += d * d;
    }
  }
  store_sums<T>(s, sums, work);
}

constexpr unsigned kChannelsAtOnce = 32, kSlices = 32;

// The two sums over the rows of `work`, of the channel of this thread. Valid where threadIdx.y is 0.
__device__ void add_rows(const float* work, unsigned rows, unsigned channels, unsigned channel,
                         double (&sums)[2]) {
  __shared__ double parts[2][kSlices][kChannelsAtOnce];
  for (unsigned j = 0; j < 2; ++j) {
    double all = 0;
    if (channel < channels) {
      for (unsigned row = threadIdx.y; row < rows; row += kSlices)
        all += static_cast<double>(work[(row * 2 + j) * channels + channel]);
    }
    parts[j][threadIdx.y][threadIdx.x] = all;
  }
  __syncthreads();
  for (unsigned j = 0; j < 2; ++j) {
    sums[j] = 0;
    for (unsigned slice = 0; slice < kSlices; ++slice) sums[j] += parts[j][slice][threadIdx.x];
  }
}

template <class T>
__global__ void __launch_bounds__(kChannelsAtOnce* kSlices)
    statistics_kernel(NormForward call, unsigned pixels, unsigned rows, unsigned channels,
                      const float* work) {
  const unsigned channel = blockIdx.x * kChannelsAtOnce + threadIdx.x;
  double sums[2];
  add_rows(work, rows, channels, channel, sums);
  if (threadIdx.y != 0 || channel >= channels) return;
  const double n = pixels, offset = sums[0] / n, difference = sums[1] / n - offset * offset;
  const double variance = difference < 0 ? 0 : difference;  // a NaN stays
  const double mean = static_cast<double>(to_float(static_cast<const T*>(call.x)[channel])) + offset;
  const double deviation = 1 / sqrt(variance + call.epsilon);
  call.mean[channel] = static_cast<float>(mean);
  call.deviation[channel] = static_cast<float>(deviation);
  call.scale[channel] = static_cast<float>(static_cast<double>(call.weight[channel]) * deviation);
  const double keep = 1 - call.momentum, unbiased = n > 1 ? variance * n / (n - 1) : variance;
  call.running_mean[channel] =
      static_cast<float>(keep * static_cast<double>(call.running_mean[channel]) + call.momentum * mean);
  call.running_variance[channel] = static_cast<float>(
      keep * static_cast<double>(call.running_variance[channel]) + call.momentum * unbiased);
  if (channel == 0) *call.count += 1;
}

// What the normalization gives, as its type can hold it.
template <class T>
__device__ float normalized(T x, float mean, float scale, float bias) {
  return to_float(from_float<T>((to_float(x) - mean) * scale + bias));
}

template <class T>
__global__ void apply_kernel(Columns s, NormForward call) {
  const unsigned group = s.group();
  const Channels<T> mean(call.mean, group), scale(call.scale, group), bias(call.bias, group);
  const Pack<T>* const x = static_cast<const Pack<T>*>(call.x);
  const Pack<T>* const residual = static_cast<const Pack<T>*>(call.residual);
  for (unsigned pixel = s.first_pixel(); pixel < s.pixels; pixel += s.step()) {
    const unsigned i = pixel * s.groups + group;
    const Pack<T> in = x[i];
    Pack<T> more, out;
    if (residual != nullptr) more = residual[i];
    for (unsigned k = 0; k < Pack<T>::kSize; ++k) {
      float value = normalized(in.x[k], mean.x[k], scale.x[k], bias.x[k]);
      if (residual != nullptr) value = to_float(from_float<T>(value + to_float(more.x[k])));
      out.x[k] = from_float<T>(!call.relu || above(value, 0) ? value : 0);
    }
    static_cast<Pack<T>*>(call.y)[i] = out;
  }
}

// Whether the ReLU let an element pass: it is in y, or computed again as it was.
enum class Mask { kNone, kFromY, kAgain };

// Dz, the gradient behind the ReLU, for a pack.
template <class T, Mask kMask>
struct Gradients {
  const Pack<T>*x, *dout, *y;
  Channels<T> mean, scale, bias;

  __device__ Gradients(const NormBackward& call, unsigned group)
      : x(static_cast<const Pack<T>*>(call.x)),
        dout(static_cast<const Pack<T>*>(call.dout)),
        y(static_cast<const Pack<T>*>(call.y)),
        mean(call.mean, group),
        scale(call.scale, group),
        bias(call.bias, group) {}

  // `in`: gets x.
  __device__ Pack<T> at(unsigned i, Pack<T>& in) const {
    in = x[i];
    Pack<T> d = dout[i];
    if constexpr (kMask != Mask::kNone) {
      Pack<T> out;
      if (kMask == Mask::kFromY) out = y[i];
      for (unsigned k = 0; k < Pack<T>::kSize; ++k) {
        const float value = kMask == Mask::kFromY ? to_float(out.x[k])
                                                  : normalized(in.x[k], mean.x[k], scale.x[k], bias.x[k]);
        if (!above(value, 0)) d.x[k] = from_float<T>(0);
      }
    }
    return d;
  }
};

template <class T, Mask kMask>
__global__ void gradient_sums_kernel(Columns s, NormBackward call, float* work) {
  constexpr unsigned kSize = Pack<T>::kSize;
  const unsigned group = s.group();
  const Gradients<T, kMask> gradients(call, group);
  float sums[2][kSize] = {};
#pragma unroll 4
  for (unsigned pixel = s.first_pixel(); pixel < s.pixels; pixel += s.step()) {
    Pack<T> in;
    const Pack<T> d = gradients.at(pixel * s.groups + group, in);
    for (unsigned k = 0; k < kSize; ++k) {
      sums[0][k] += to_float(d.x[k]);
      sums[1][k] += to_float(d.x[k]) * (to_float(in.x[k]) - gradients.mean.x[k]);
    }
  }
  store_sums<T>(s, sums, work);
}

// `means`, [2, channels]: what gradient_kernel() subtracts.
__global__ void __launch_bounds__(kChannelsAtOnce* kSlices)
    gradient_means_kernel(NormBackward call, unsigned pixels, unsigned rows, unsigned channels,
                          const float* work, float* means) {
  const unsigned channel = blockIdx.x * kChannelsAtOnce + threadIdx.x;
  double sums[2];
  add_rows(work, rows, channels, channel, sums);
  if (threadIdx.y != 0 || channel >= channels) return;
  const double deviation = static_cast<double>(call.deviation[channel]), n = pixels;
  call.dbias[channel] = static_cast<float>(sums[0]);
  call.dweight[channel] = static_cast<float>(sums[1] * deviation);
  means[channel] = static_cast<float>(sums[0] / n);
  means[channels + channel] = static_cast<float>(sums[1] * deviation * deviation / n);
}

// dx = scale * (dz - mean of dz - (x - mean) * mean of dz (x - mean) / variance)
template <class T, Mask kMask>
__global__ void gradient_kernel(Columns s, NormBackward call, const float* means) {
  constexpr unsigned kSize = Pack<T>::kSize;
  const unsigned group = s.group();
  const Gradients<T, kMask> gradients(call, group);
  const Channels<T> first(means, group), second(means + s.groups * kSize, group);
  for (unsigned pixel = s.first_pixel(); pixel < s.pixels; pixel += s.step()) {
    const unsigned i = pixel * s.groups + group;
    Pack<T> in, dx;
    const Pack<T> d = gradients.at(i, in);
    for (unsigned k = 0; k < kSize; ++k) {
      const float along = (to_float(in.x[k]) - gradients.mean.x[k]) * second.x[k];
      dx.x[k] = from_float<T>(gradients.scale.x[k] * (to_float(d.x[k]) - first.x[k] - along));
    }
    static_cast<Pack<T>*>(call.dx)[i] = dx;
    if (call.dresidual != nullptr) static_cast<Pack<T>*>(call.dresidual)[i] = d;
  }
}

constexpr unsigned kAnyBlocks = 1U << 20, kPixelsOfAnElement = 8;

template <class T, Mask kMask>
void backward(const NormShape& shape, const NormBackward& call, float* work, cudaStream_t stream) {
  const Columns s = columns_of<T>(shape);
  const dim3 blocks = sum_blocks<T>(shape);
  const auto channels = static_cast<unsigned>(shape.channels);
  float* const means = work + std::size_t{blocks.x} * 2 * channels;
  gradient_sums_kernel<T, kMask><<<blocks, kThreads, 0, stream>>>(s, call, work);
  gradient_means_kernel<<<(channels + kChannelsAtOnce - 1) / kChannelsAtOnce, dim3(kChannelsAtOnce, kSlices),
                          0, stream>>>(call, s.pixels, blocks.x, channels, work, means);
  gradient_kernel<T, kMask>
      <<<s.blocks(kAnyBlocks, kPixelsOfAnElement), kThreads, 0, stream>>>(s, call, means);
}

}  // namespace

bool suits(const NormShape& shape) {
  const int size = shape.number == Number::kBfloat16 ? 8 : 4, groups = shape.channels / size;
  if (shape.channels % size != 0 || groups < 1) return false;
  const auto number = static_cast<unsigned>(groups);
  if (number < kThreads ? kThreads % number != 0 : number % kThreads != 0) return false;
  return shape.pixels > 0 && shape.pixels * number < std::size_t{1} << 31;
}

std::size_t norm_work_bytes(const NormShape& shape) {
  unsigned rows = 0;
  with_number(shape.number, [&]<class T>(T) { rows = sum_blocks<T>(shape).x; });
  return (std::size_t{rows} + 1) * 2 * static_cast<std::size_t>(shape.channels) * sizeof(float);
}

cudaError_t norm_forward(const NormShape& shape, const NormForward& call, float* work, cudaStream_t stream) {
  with_number(shape.number, [&]<class T>(T) {
    const Columns s = columns_of<T>(shape);
    const dim3 blocks = sum_blocks<T>(shape);
    const auto channels = static_cast<unsigned>(shape.channels);
    moments_kernel<T><<<blocks, kThreads, 0, stream>>>(s, packs<T>(call.x), work);
    statistics_kernel<T>
        <<<(channels + kChannelsAtOnce - 1) / kChannelsAtOnce, dim3(kChannelsAtOnce, kSlices), 0, stream>>>(
            call, s.pixels, blocks.x, channels, work);
    apply_kernel<T><<<s.blocks(kAnyBlocks, kPixelsOfAnElement), kThreads, 0, stream>>>(s, call);
  });
  return cudaGetLastError();
}

cudaError_t norm_backward(const NormShape& shape, const NormBackward& call, float* work,
                          cudaStream_t stream) {
  with_number(shape.number, [&]<class T>(T) {
    if (!call.relu)
      backward<T, Mask::kNone>(shape, call, work, stream);
    else if (call.y != nullptr)
      backward<T, Mask::kFromY>(shape, call, work, stream);
    else
      backward<T, Mask::kAgain>(shape, call, work, stream);
  });
  return cudaGetLastError();
}

}  // namespace rekindle::device
