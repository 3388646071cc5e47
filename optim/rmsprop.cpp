// torch.optim.RMSprop (Hinton's lecture 6e; not centered):
//
//   g = scale * sum + weight_decay * p
//   s = alpha * s + (1 - alpha) * g^2
//   d = g / (sqrt(s) + eps)
//   p = p - lr * d                            without momentum
//   b = momentum * b + d;  p = p - lr * b     with momentum
#include <cmath>

#include "base/each_width.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

struct Scalars {
  float scale, lr, alpha, one_minus_alpha, eps, momentum, weight_decay;
};

REKINDLE_EACH_WIDTH
void plain(const Scalars c, float* __restrict p, float* __restrict s, const float* __restrict sum,
           std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = c.scale * sum[i] + c.weight_decay * p[i];
    s[i] = c.alpha * s[i] + c.one_minus_alpha * g * g;
    p[i] -= c.lr * (g / (std::sqrt(s[i]) + c.eps));
  }
}

REKINDLE_EACH_WIDTH
void heavy_ball(const Scalars c, float* __restrict p, float* __restrict s, float* __restrict b,
                const float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = c.scale * sum[i] + c.weight_decay * p[i];
    s[i] = c.alpha * s[i] + c.one_minus_alpha * g * g;
    b[i] = c.momentum * b[i] + g / (std::sqrt(s[i]) + c.eps);
    p[i] -= c.lr * b[i];
  }
}

class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const Options& options) : options_(options) {}

  std::vector<std::string> states() const override {
    if (options_.momentum != 0) return {"square_avg", "momentum"};
    return {"square_avg"};
  }

  void update(const Step& step, std::span<float> p, std::span<const std::span<float>> states,
              std::span<const float> sum) const override {
    const Scalars c{step.scale,
                    static_cast<float>(step.learning_rate),
                    static_cast<float>(options_.alpha),
                    static_cast<float>(1 - options_.alpha),
                    static_cast<float>(*options_.eps),
                    static_cast<float>(options_.momentum),
                    static_cast<float>(options_.weight_decay)};
    if (states.size() > 1)
      heavy_ball(c, p.data(), states[0].data(), states[1].data(), sum.data(), sum.size());
    else
      plain(c, p.data(), states[0].data(), sum.data(), sum.size());
  }

 private:
  const Options options_;
};

Status check(const Options& options) {
  REKINDLE_CHECK(check_range("--alpha", options.alpha, 0, 1));
  return check_range("--momentum", options.momentum, 0, 1);
}

}  // namespace

const Row kRmsprop = {
    "rmsprop",
    "--alpha, --eps, --momentum",
    1e-2,
    0,
    1e-8,
    check,
    [](const Options& options) -> std::unique_ptr<Optimizer> { return std::make_unique<Rmsprop>(options); }};

}  // namespace rekindle::optim
