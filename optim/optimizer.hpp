// Optimizers: the update of float32 parameters from a summed gradient, in one pass over host memory. Without
// LibTorch, so that models in any language use the same code and get the same bits.
//
// To add an optimizer: a file beside sgd.cpp with one row, its name in REKINDLE_OPTIMIZERS below, and either
// update() for CPUs alone, or a formula (optim/formulas.hpp) for GPUs too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "optim/formulas.hpp"

namespace rekindle::optim {

// The names and meanings are those of torch.optim. An optimizer ignores the values that it does not have.
struct Options {
  std::string name = "sgd";
  double weight_decay = 0;
  double momentum = 0;                // sgd, rmsprop
  double dampening = 0;               // sgd
  bool nesterov = false;              // sgd
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw
  double alpha = 0.99;                // rmsprop
  double rho = 0.9;                   // adadelta
  std::optional<double> eps = {};     // nullopt: the optimizer's own default
  friend bool operator==(const Options&, const Options&) = default;
};

// What one step of training gives to each call of update().
struct Step {
  std::uint64_t number = 0;  // updates that the parameters have had before
  float scale = 1;           // gradient = scale * sum
  double learning_rate = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The prefixes of its state tensors, one per parameter each ("momentum" for "momentum.fc.weight"), in the
  // order of `states` below. A new state is zero.
  virtual std::vector<std::string> states() const = 0;
  // Whether an update depends on step.number. The state then counts the updates of each parameter, because a
  // parameter without a gradient is not updated.
  virtual bool counts() const { return false; }

  // Updates a piece of the parameters. All spans have the size of `sum`. Every element is independent, so a
  // step may be split into pieces anywhere without a change of bits.
  virtual void update(const Step& step, std::span<float> parameters, std::span<const std::span<float>> states,
                      std::span<const float> sum) const = 0;
  // The same as a formula for one element, which a GPU can compute too; nullptr: this optimizer has none.
  virtual const class FormulaOptimizer* as_formula() const { return nullptr; }
};

class FormulaOptimizer : public Optimizer {
 public:
  virtual Formula formula(const Step& step) const = 0;
  void update(const Step& step, std::span<float> parameters, std::span<const std::span<float>> states,
              std::span<const float> sum) const final {
    update_on_host(formula(step), parameters, states, sum);
  }
  const FormulaOptimizer* as_formula() const final { return this; }
};

// What a user needs to know of an optimizer, and how one is made from options that check() accepts.
struct Row {
  const char* name;
  const char* options;  // the command-line options that it has besides --lr and --weight-decay
  double learning_rate, weight_decay, eps;  // defaults
  Status (*check)(const Options& options);
  std::unique_ptr<Optimizer> (*make)(const Options& options);
};
std::span<const std::reference_wrapper<const Row>> optimizers();
std::vector<std::string> names_of_optimizers();
// nullptr: there is none of that name.
const Row* find_optimizer(const std::string& name);
// The names in Row::options, as in a --config file: "momentum".
std::vector<std::string> option_names(const Row& row);

// Errors (ExitCode::kConfig): an unknown name, with the nearest one; a value out of range.
Result<std::unique_ptr<Optimizer>> make_optimizer(const Options& options);

// An error unless least <= value < most (ExitCode::kConfig); a NaN is refused.
Status check_range(const char* option, double value, double least, double most);

// All rows: a new one gets its name here.
#define REKINDLE_OPTIMIZERS kSgd, kAdam, kAdamW, kAdadelta, kRmsprop  // NOLINT(*-macro-usage)
extern const Row REKINDLE_OPTIMIZERS;

}  // namespace rekindle::optim
