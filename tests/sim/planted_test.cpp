// Each planted bug of base/planted.hpp must be found: a checker that never fails is useless.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "run.hpp"

namespace rekindle::sim {
namespace {

constexpr std::uint64_t kBudget = 3000;  // schedules

class PlantedBug : public testing::TestWithParam<NamedBug> {
 protected:
  void TearDown() override { planted_bug = Bug::kNone; }
};

// The same schedule must pass without the bug, otherwise another bug was found.
TEST_P(PlantedBug, IsFound) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= kBudget; ++seed) {
    planted_bug = GetParam().bug;
    const Outcome with_bug = run_schedule(seed, coverage);
    if (with_bug.violation.empty()) continue;
    planted_bug = Bug::kNone;
    if (!run_schedule(seed, coverage).violation.empty()) continue;
    std::cout << "seed " << seed << ": " << with_bug.violation << "\n";
    return;
  }
  FAIL() << "nothing is found in " << kBudget << " schedules";
}

std::string test_name(const testing::TestParamInfo<NamedBug>& info) {
  std::string name;
  bool upper = true;
  for (const char* c = info.param.name; *c != 0; ++c) {
    if (*c != '-') name += upper ? static_cast<char>(std::toupper(*c)) : *c;
    upper = *c == '-';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Simulator, PlantedBug, testing::ValuesIn(kBugs), test_name);

}  // namespace
}  // namespace rekindle::sim
