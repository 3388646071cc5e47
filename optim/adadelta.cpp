// torch.optim.Adadelta (Zeiler 2012):
//
//   g = scale * sum + weight_decay * p
//   s = rho * s + (1 - rho) * g^2
//   d = sqrt(a + eps) / sqrt(s + eps) * g
//   a = rho * a + (1 - rho) * d^2
//   p = p - lr * d
#include <cmath>

#include "base/each_width.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

struct Scalars {
  float scale, lr, rho, one_minus_rho, eps, weight_decay;
};

REKINDLE_EACH_WIDTH
void adadelta(const Scalars step, float* __restrict p, float* __restrict s, float* __restrict a,
              const float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = step.scale * sum[i] + step.weight_decay * p[i];
    s[i] = step.rho * s[i] + step.one_minus_rho * g * g;
    const float d = std::sqrt(a[i] + step.eps) / std::sqrt(s[i] + step.eps) * g;
    a[i] = step.rho * a[i] + step.one_minus_rho * d * d;
    p[i] -= step.lr * d;
  }
}

class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(const Options& options) : options_(options) {}

  std::vector<std::string> states() const override { return {"square_avg", "acc_delta"}; }

  void update(const Step& step, std::span<float> p, std::span<const std::span<float>> states,
              std::span<const float> sum) const override {
    const Scalars s{step.scale,
                    static_cast<float>(step.learning_rate),
                    static_cast<float>(options_.rho),
                    static_cast<float>(1 - options_.rho),
                    static_cast<float>(*options_.eps),
                    static_cast<float>(options_.weight_decay)};
    adadelta(s, p.data(), states[0].data(), states[1].data(), sum.data(), sum.size());
  }

 private:
  const Options options_;
};

Status check(const Options& options) {
  REKINDLE_CHECK(check_range("--rho", options.rho, 0, 1));
  if (*options.eps > 0) return {};
  return fail(ExitCode::kConfig, "--eps 0: adadelta divides by it", "use a small number like 1e-6");
}

}  // namespace

const Row kAdadelta = {
    "adadelta", "--rho, --eps", 1, 0, 1e-6, check, [](const Options& options) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adadelta>(options);
    }};

}  // namespace rekindle::optim
