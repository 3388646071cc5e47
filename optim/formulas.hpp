// The update of one element by each optimizer. The loops of the host and the kernels of a GPU both call these
// functions. The numbers are those of one step; sum: the summed gradient of the element; p: the parameter;
// the other references are the optimizer's states, in the order of Optimizer::states(), which also are the
// sizes of kStates.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <variant>

#include "base/everywhere.hpp"

namespace rekindle::optim {

// torch.optim.SGD:
//
//   g = scale * sum + weight_decay * p
//   m = momentum * m + (1 - dampening) * g        at the first step m = g
//   p = p - lr * m                                with Nesterov: p - lr * (g + momentum * m)
//
// Without momentum there is no m, and p = p - lr * g.
struct PlainSgd {
  static constexpr int kStates = 0;
  float scale, lr, weight_decay;

  REKINDLE_EVERYWHERE void operator()(float& p, float sum) const {
    const float g = scale * sum + weight_decay * p;
    p -= lr * g;
  }
};

struct MomentumSgd {
  static constexpr int kStates = 1;
  float scale, lr, momentum, keep, weight_decay;  // keep: 1 - dampening

  REKINDLE_EVERYWHERE void operator()(float& p, float& m, float sum) const {
    const float g = scale * sum + weight_decay * p;
    m = momentum * m + keep * g;
    p -= lr * m;
  }
};

struct NesterovSgd {
  static constexpr int kStates = 1;
  float scale, lr, momentum, keep, weight_decay;

  REKINDLE_EVERYWHERE void operator()(float& p, float& m, float sum) const {
    const float g = scale * sum + weight_decay * p;
    m = momentum * m + keep * g;
    p -= lr * (g + momentum * m);
  }
};

// torch.optim.Adam (Kingma and Ba 2014) and torch.optim.AdamW (Loshchilov and Hutter 2017), t = 1, 2, ...:
//
//   adam:   g = scale * sum + weight_decay * p
//   adamw:  g = scale * sum,  p = p - lr * weight_decay * p
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
struct AdamFormula {
  static constexpr int kStates = 2;
  // l2: weight decay in the gradient; shrink: 1 - lr * weight_decay on the parameter
  float scale, l2, shrink, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, root_correction2, eps;

  REKINDLE_EVERYWHERE void operator()(float& p, float& m, float& v, float sum) const {
    const float g = scale * sum + l2 * p;
    const float shrunk = shrink * p;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    p = shrunk - step_size * (m / (std::sqrt(v) / root_correction2 + eps));
  }
};

// torch.optim.Adadelta (Zeiler 2012):
//
//   g = scale * sum + weight_decay * p
//   s = rho * s + (1 - rho) * g^2
//   d = sqrt(a + eps) / sqrt(s + eps) * g
//   a = rho * a + (1 - rho) * d^2
//   p = p - lr * d
struct AdadeltaFormula {
  static constexpr int kStates = 2;
  float scale, lr, rho, one_minus_rho, eps, weight_decay;

  REKINDLE_EVERYWHERE void operator()(float& p, float& s, float& a, float sum) const {
    const float g = scale * sum + weight_decay * p;
    s = rho * s + one_minus_rho * g * g;
    const float d = std::sqrt(a + eps) / std::sqrt(s + eps) * g;
    a = rho * a + one_minus_rho * d * d;
    p -= lr * d;
  }
};

// torch.optim.RMSprop (Hinton's lecture 6e; not centered):
//
//   g = scale * sum + weight_decay * p
//   s = alpha * s + (1 - alpha) * g^2
//   d = g / (sqrt(s) + eps)
//   p = p - lr * d                            without momentum
//   b = momentum * b + d;  p = p - lr * b     with momentum
struct PlainRmsprop {
  static constexpr int kStates = 1;
  float scale, lr, alpha, one_minus_alpha, eps, weight_decay;

  REKINDLE_EVERYWHERE void operator()(float& p, float& s, float sum) const {
    const float g = scale * sum + weight_decay * p;
    s = alpha * s + one_minus_alpha * g * g;
    p -= lr * (g / (std::sqrt(s) + eps));
  }
};

struct MomentumRmsprop {
  static constexpr int kStates = 2;
  float scale, lr, alpha, one_minus_alpha, eps, momentum, weight_decay;

  REKINDLE_EVERYWHERE void operator()(float& p, float& s, float& b, float sum) const {
    const float g = scale * sum + weight_decay * p;
    s = alpha * s + one_minus_alpha * g * g;
    b = momentum * b + g / (std::sqrt(s) + eps);
    p -= lr * b;
  }
};

// A row for each formula that GPUs have too.
using Formula = std::variant<PlainSgd, MomentumSgd, NesterovSgd, AdamFormula, AdadeltaFormula, PlainRmsprop,
                             MomentumRmsprop>;

// The update of all elements, in host memory. All spans have the size of `sum`.
void update_on_host(const Formula& formula, std::span<float> parameters,
                    std::span<const std::span<float>> states, std::span<const float> sum);

}  // namespace rekindle::optim
