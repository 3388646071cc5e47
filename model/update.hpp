// The optimizers' formulas, one pass over a piece of the arenas. Every element is independent, so pieces may
// be split anywhere and the vector width does not matter.
#pragma once

#include <span>

namespace rekindle::model {

struct SgdStep {
  float scale = 1, lr = 0, momentum = 0, weight_decay = 0;
};
// torch.optim.SGD (dampening 0, no Nesterov):
//   g = scale * sum + weight_decay * p;  m = momentum * m + g;  p -= lr * m
// A zero momentum arena gives PyTorch's first step, m = g. `momentum` is empty when step.momentum is 0: p -=
// lr * g.
void sgd_update(const SgdStep& step, std::span<float> parameters, std::span<float> momentum,
                std::span<const float> sum);

struct AdadeltaStep {
  float scale = 1, lr = 1, rho = 0.9F, one_minus_rho = 0.1F, eps = 1e-6F, weight_decay = 0;
};
// torch.optim.Adadelta (Zeiler 2012):
//   g = scale * sum + weight_decay * p;  s = rho * s + (1 - rho) * g^2
//   d = sqrt(a + eps) / sqrt(s + eps) * g;  a = rho * a + (1 - rho) * d^2;  p -= lr * d
void adadelta_update(const AdadeltaStep& step, std::span<float> parameters, std::span<float> square_avg,
                     std::span<float> acc_delta, std::span<const float> sum);

}  // namespace rekindle::model
