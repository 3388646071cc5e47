// The formulas: optim/formulas.hpp.
#include <cmath>

#include "optim/exact_math.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

class Adam final : public FormulaOptimizer {
 public:
  Adam(const Options& options, bool decoupled) : options_(options), decoupled_(decoupled) {}

  std::vector<std::string> states() const override { return {"exp_avg", "exp_avg_sq"}; }
  bool counts() const override { return true; }

  Formula formula(const Step& step) const override {
    const std::uint64_t t = step.number + 1;
    const double lr = step.learning_rate;
    const double correction1 = 1 - power(options_.beta1, t), correction2 = 1 - power(options_.beta2, t);
    const double decay = options_.weight_decay;
    return AdamFormula{step.scale,
                       static_cast<float>(decoupled_ ? 0 : decay),
                       static_cast<float>(decoupled_ ? 1 - lr * decay : 1),
                       static_cast<float>(options_.beta1),
                       static_cast<float>(1 - options_.beta1),
                       static_cast<float>(options_.beta2),
                       static_cast<float>(1 - options_.beta2),
                       static_cast<float>(lr / correction1),
                       static_cast<float>(std::sqrt(correction2)),
                       static_cast<float>(*options_.eps)};
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
