#include "model/update.hpp"

#include <cassert>
#include <cmath>
#include <cstddef>

// One loop, compiled for each width; elementwise IEEE operations without contraction give the same bits in
// all of them. Sanitizers run before ifuncs are resolved and crash there, so their builds have one plain
// version.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REKINDLE_EACH_WIDTH __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define REKINDLE_EACH_WIDTH
#endif

namespace rekindle::model {
namespace {

REKINDLE_EACH_WIDTH
void sgd_momentum(const SgdStep step, float* __restrict p, float* __restrict m, const float* __restrict sum,
                  std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = step.scale * sum[i] + step.weight_decay * p[i];
    m[i] = step.momentum * m[i] + g;
    p[i] -= step.lr * m[i];
  }
}

REKINDLE_EACH_WIDTH
void sgd_plain(const SgdStep step, float* __restrict p, const float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = step.scale * sum[i] + step.weight_decay * p[i];
    p[i] -= step.lr * g;
  }
}

REKINDLE_EACH_WIDTH
void adadelta(const AdadeltaStep step, float* __restrict p, float* __restrict s, float* __restrict a,
              const float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = step.scale * sum[i] + step.weight_decay * p[i];
    s[i] = step.rho * s[i] + step.one_minus_rho * g * g;
    const float d = std::sqrt(a[i] + step.eps) / std::sqrt(s[i] + step.eps) * g;
    a[i] = step.rho * a[i] + step.one_minus_rho * d * d;
    p[i] -= step.lr * d;
  }
}

}  // namespace

void sgd_update(const SgdStep& step, std::span<float> parameters, std::span<float> momentum,
                std::span<const float> sum) {
  assert(parameters.size() == sum.size() && (momentum.empty() || momentum.size() == sum.size()));
  if (momentum.empty())
    sgd_plain(step, parameters.data(), sum.data(), sum.size());
  else
    sgd_momentum(step, parameters.data(), momentum.data(), sum.data(), sum.size());
}

void adadelta_update(const AdadeltaStep& step, std::span<float> parameters, std::span<float> square_avg,
                     std::span<float> acc_delta, std::span<const float> sum) {
  assert(parameters.size() == sum.size() && square_avg.size() == sum.size() &&
         acc_delta.size() == sum.size());
  adadelta(step, parameters.data(), square_avg.data(), acc_delta.data(), sum.data(), sum.size());
}

}  // namespace rekindle::model
