#include "optim/optimizer.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace rekindle::optim {
namespace {

constexpr std::reference_wrapper<const Row> kOptimizers[] = {REKINDLE_OPTIMIZERS};

}  // namespace

std::span<const std::reference_wrapper<const Row>> optimizers() { return kOptimizers; }

std::vector<std::string> names_of_optimizers() {
  std::vector<std::string> names;
  for (const Row& row : kOptimizers) names.emplace_back(row.name);
  return names;
}

const Row* find_optimizer(const std::string& name) {
  for (const Row& row : kOptimizers) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

std::vector<std::string> option_names(const Row& row) {
  std::vector<std::string> names;
  const std::string_view all = row.options;
  for (auto begin = all.find("--"); begin != all.npos; begin = all.find("--", begin + 2)) {
    names.emplace_back(all.substr(begin + 2, all.find(',', begin) - begin - 2));
    std::ranges::replace(names.back(), '-', '_');
  }
  return names;
}

Result<std::unique_ptr<Optimizer>> make_optimizer(const Options& options) {
  const Row* row = find_optimizer(options.name);
  if (row == nullptr)
    return fail(ExitCode::kConfig, str("unknown optimizer '", options.name, "'"),
                did_you_mean(options.name, names_of_optimizers()));
  Options complete = options;
  complete.eps = options.eps.value_or(row->eps);
  REKINDLE_CHECK(check_range("--weight-decay", options.weight_decay, 0, std::numeric_limits<double>::max()));
  REKINDLE_CHECK(check_range("--eps", *complete.eps, 0, 1));
  REKINDLE_CHECK(row->check(complete));
  return row->make(complete);
}

Status check_range(const char* option, double value, double least, double most) {
  if (value >= least && value < most) return {};
  const std::string range = most == std::numeric_limits<double>::max()
                                ? str("use ", least, " or more")
                                : str("use a number from ", least, " up to, not including, ", most);
  return fail(ExitCode::kConfig, str(option, " ", value, " is out of range"), range);
}

}  // namespace rekindle::optim
