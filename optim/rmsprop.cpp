// The formulas: optim/formulas.hpp.
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

class Rmsprop final : public FormulaOptimizer {
 public:
  explicit Rmsprop(const Options& options) : options_(options) {}

  std::vector<std::string> states() const override {
    if (options_.momentum != 0) return {"square_avg", "momentum"};
    return {"square_avg"};
  }

  Formula formula(const Step& step) const override {
    const auto lr = static_cast<float>(step.learning_rate), alpha = static_cast<float>(options_.alpha),
               rest = static_cast<float>(1 - options_.alpha), eps = static_cast<float>(*options_.eps),
               momentum = static_cast<float>(options_.momentum),
               decay = static_cast<float>(options_.weight_decay);
    if (options_.momentum == 0) return PlainRmsprop{step.scale, lr, alpha, rest, eps, decay};
    return MomentumRmsprop{step.scale, lr, alpha, rest, eps, momentum, decay};
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
