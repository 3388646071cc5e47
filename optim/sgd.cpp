// torch.optim.SGD:
//
//   g = scale * sum + weight_decay * p
//   m = momentum * m + (1 - dampening) * g        at the first step m = g
//   p = p - lr * m                                with Nesterov: p - lr * (g + momentum * m)
//
// Without momentum there is no m, and p = p - lr * g.
#include "base/each_width.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

struct Scalars {
  float scale, lr, momentum, keep, weight_decay;  // keep: 1 - dampening
};

REKINDLE_EACH_WIDTH
void plain(const Scalars s, float* __restrict p, const float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = s.scale * sum[i] + s.weight_decay * p[i];
    p[i] -= s.lr * g;
  }
}

REKINDLE_EACH_WIDTH
void heavy_ball(const Scalars s, float* __restrict p, float* __restrict m, const float* __restrict sum,
                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = s.scale * sum[i] + s.weight_decay * p[i];
    m[i] = s.momentum * m[i] + s.keep * g;
    p[i] -= s.lr * m[i];
  }
}

REKINDLE_EACH_WIDTH
void nesterov(const Scalars s, float* __restrict p, float* __restrict m, const float* __restrict sum,
              std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = s.scale * sum[i] + s.weight_decay * p[i];
    m[i] = s.momentum * m[i] + s.keep * g;
    p[i] -= s.lr * (g + s.momentum * m[i]);
  }
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const Options& options) : options_(options) {}

  std::vector<std::string> states() const override {
    return options_.momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }
  bool counts() const override { return options_.dampening != 0; }

  void update(const Step& step, std::span<float> p, std::span<const std::span<float>> states,
              std::span<const float> sum) const override {
    const double keep = step.number == 0 ? 1 : 1 - options_.dampening;
    const Scalars s{step.scale, static_cast<float>(step.learning_rate), static_cast<float>(options_.momentum),
                    static_cast<float>(keep), static_cast<float>(options_.weight_decay)};
    if (states.empty())
      plain(s, p.data(), sum.data(), sum.size());
    else if (options_.nesterov)
      nesterov(s, p.data(), states[0].data(), sum.data(), sum.size());
    else
      heavy_ball(s, p.data(), states[0].data(), sum.data(), sum.size());
  }

 private:
  const Options options_;
};

Status check(const Options& options) {
  REKINDLE_CHECK(check_range("--momentum", options.momentum, 0, 1));
  REKINDLE_CHECK(check_range("--dampening", options.dampening, 0, 1));
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    return fail(ExitCode::kConfig, "--nesterov needs --momentum above 0 and no --dampening",
                "as in torch.optim.SGD");
  return {};
}

}  // namespace

const Row kSgd = {
    "sgd",
    "--momentum, --dampening, --nesterov",
    1e-3,
    5e-4,
    0,
    check,
    [](const Options& options) -> std::unique_ptr<Optimizer> { return std::make_unique<Sgd>(options); }};

}  // namespace rekindle::optim
