// torch.optim.Adam (Kingma and Ba 2014) and torch.optim.AdamW (Loshchilov and Hutter 2017), t = 1, 2, ...:
//
//   adam:   g = scale * sum + weight_decay * p
//   adamw:  g = scale * sum,  p = p - lr * weight_decay * p
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
#include <cmath>

#include "base/each_width.hpp"
#include "optim/exact_math.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

struct Scalars {
  float scale, l2,
      shrink;  // l2: weight decay in the gradient; shrink: 1 - lr * weight_decay on the parameter
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size, root_correction2, eps;
};

REKINDLE_EACH_WIDTH
void adam(const Scalars s, float* __restrict p, float* __restrict m, float* __restrict v,
          const float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = s.scale * sum[i] + s.l2 * p[i];
    const float shrunk = s.shrink * p[i];
    m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g;
    v[i] = s.beta2 * v[i] + s.one_minus_beta2 * g * g;
    p[i] = shrunk - s.step_size * (m[i] / (std::sqrt(v[i]) / s.root_correction2 + s.eps));
  }
}

class Adam final : public Optimizer {
 public:
  Adam(const Options& options, bool decoupled) : options_(options), decoupled_(decoupled) {}

  std::vector<std::string> states() const override { return {"exp_avg", "exp_avg_sq"}; }
  bool counts() const override { return true; }

  void update(const Step& step, std::span<float> p, std::span<const std::span<float>> states,
              std::span<const float> sum) const override {
    const std::uint64_t t = step.number + 1;
    const double lr = step.learning_rate;
    const double correction1 = 1 - power(options_.beta1, t), correction2 = 1 - power(options_.beta2, t);
    const double decay = options_.weight_decay;
    const Scalars s{step.scale,
                    static_cast<float>(decoupled_ ? 0 : decay),
                    static_cast<float>(decoupled_ ? 1 - lr * decay : 1),
                    static_cast<float>(options_.beta1),
                    static_cast<float>(1 - options_.beta1),
                    static_cast<float>(options_.beta2),
                    static_cast<float>(1 - options_.beta2),
                    static_cast<float>(lr / correction1),
                    static_cast<float>(std::sqrt(correction2)),
                    static_cast<float>(*options_.eps)};
    adam(s, p.data(), states[0].data(), states[1].data(), sum.data(), sum.size());
  }

 private:
  const Options options_;
  const bool decoupled_;  // weight decay: AdamW
};

Status check(const Options& options) {
  REKINDLE_CHECK(check_range("--beta1", options.beta1, 0, 1));
  return check_range("--beta2", options.beta2, 0, 1);
}

constexpr const char* kOptions = "--beta1, --beta2, --eps";

}  // namespace

const Row kAdam = {
    "adam", kOptions, 1e-3, 0, 1e-8, check, [](const Options& options) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adam>(options, false);
    }};
const Row kAdamW = {
    "adamw", kOptions, 1e-3, 1e-2, 1e-8, check, [](const Options& options) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adam>(options, true);
    }};

}  // namespace rekindle::optim
