// The formula: optim/formulas.hpp.
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

class Sgd final : public FormulaOptimizer {
 public:
  explicit Sgd(const Options& options) : options_(options) {}

  std::vector<std::string> states() const override {
    return options_.momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }
  bool counts() const override { return options_.dampening != 0; }

  Formula formula(const Step& step) const override {
    const auto lr = static_cast<float>(step.learning_rate), momentum = static_cast<float>(options_.momentum),
               keep = static_cast<float>(step.number == 0 ? 1 : 1 - options_.dampening),
               decay = static_cast<float>(options_.weight_decay);
    if (options_.momentum == 0) return PlainSgd{step.scale, lr, decay};
    if (options_.nesterov) return NesterovSgd{step.scale, lr, momentum, keep, decay};
    return MomentumSgd{step.scale, lr, momentum, keep, decay};
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
