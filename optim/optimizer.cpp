#include "optim/optimizer.hpp"

#include <limits>
#include <string_view>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace rekindle::optim {
namespace {

constexpr double kMostFloat = std::numeric_limits<float>::max();  // what an update computes with

const Row* const kOptimizers[] = {&kSgd, &kAdam, &kAdamW, &kAdadelta, &kRmsprop};

}  // namespace

std::span<const Row* const> optimizers() { return kOptimizers; }

std::vector<std::string> names_of_optimizers() {
  std::vector<std::string> names;
  for (const Row* row : kOptimizers) names.emplace_back(row->name);
  return names;
}

const Row* find_optimizer(const std::string& name) {
  for (const Row* row : kOptimizers) {
    if (name == row->name) return row;
  }
  return nullptr;
}

Result<std::unique_ptr<Optimizer>> make_optimizer(const Options& options) {
  const Row* row = find_optimizer(options.name);
  if (row == nullptr)
    return fail(ExitCode::kConfig, str("unknown optimizer '", options.name, "'"),
                did_you_mean(options.name, names_of_optimizers()));
  Options complete = options;
  complete.eps = options.eps.value_or(row->eps);
  REKINDLE_CHECK(check_range("--weight-decay", options.weight_decay, 0, kMostFloat));
  REKINDLE_CHECK(check_range("--eps", *complete.eps, 0, 1));
  if (std::string_view(row->options).find("--eps") != std::string_view::npos &&
      static_cast<float>(*complete.eps) == 0)
    return fail(ExitCode::kConfig, str("--eps ", *complete.eps, ": ", row->name, " divides by it"),
                str("use a small number like ", row->eps));
  REKINDLE_CHECK(row->check(complete));
  return row->make(complete);
}

Status check_range(const char* option, double value, double least, double most) {
  if (value >= least && value < most) return {};
  const std::string range = most == kMostFloat
                                ? str("use ", least, " or more")
                                : str("use a number from ", least, " up to, not including, ", most);
  return fail(ExitCode::kConfig, str(option, " ", value, " is out of range"), range);
}

}  // namespace rekindle::optim
