// The formula: optim/formulas.hpp.
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

class Adadelta final : public FormulaOptimizer {
 public:
  explicit Adadelta(const Options& options) : options_(options) {}

  std::vector<std::string> states() const override { return {"square_avg", "acc_delta"}; }

  Formula formula(const Step& step) const override {
    return AdadeltaFormula{step.scale,
                           static_cast<float>(step.learning_rate),
                           static_cast<float>(options_.rho),
                           static_cast<float>(1 - options_.rho),
                           static_cast<float>(*options_.eps),
                           static_cast<float>(options_.weight_decay)};
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
