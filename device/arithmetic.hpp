// The arithmetic of one element of each kernel, for the host and for the device: compiled without contraction
// (no fused multiply-add), it has the same bits on both.
#pragma once

#if defined(__CUDACC__)
#define REKINDLE_EVERYWHERE __host__ __device__ __forceinline__
#else
#define REKINDLE_EVERYWHERE inline
#endif

namespace rekindle::device {

struct SgdNumbers {
  float scale = 1, lr = 0, momentum = 0, keep = 1, weight_decay = 0;  // keep: 1 - dampening
  bool nesterov = false;
};

// optim/sgd.cpp has the formula. `m`: nullptr without momentum.
REKINDLE_EVERYWHERE void sgd(const SgdNumbers& s, float& p, float* m, float sum) {
  const float g = s.scale * sum + s.weight_decay * p;
  if (m == nullptr) {
    p -= s.lr * g;
    return;
  }
  *m = s.momentum * *m + s.keep * g;
  p -= s.nesterov ? s.lr * (g + s.momentum * *m) : s.lr * *m;
}

}  // namespace rekindle::device
