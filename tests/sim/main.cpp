// Replays one schedule, or searches for a schedule that fails.
//
// sim --seed N [--count N [--keep-going] [--coverage]] [--bug NAME] [--transcript]
#include <cstring>
#include <iostream>

#include "run.hpp"

using namespace rekindle;
using namespace rekindle::sim;

namespace {

int usage() {
  std::cerr
      << "usage: sim --seed N [--count N [--keep-going] [--coverage]] [--bug NAME] [--transcript]\nbugs:";
  for (const NamedBug& bug : kBugs) std::cerr << " " << bug.name;
  std::cerr << "\n";
  return 64;
}

bool plant(const char* name) {
  for (const NamedBug& bug : kBugs) {
    if (std::strcmp(bug.name, name) != 0) continue;
    planted_bug = bug.bug;
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seed = 1, count = 1;
  bool transcript = false, keep_going = false, coverage_too = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--transcript") {
      transcript = true;
    } else if (option == "--coverage") {
      coverage_too = true;
    } else if (option == "--keep-going") {
      keep_going = true;
    } else if (i + 1 == argc) {
      return usage();
    } else if (option == "--seed") {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--count") {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (option != "--bug" || !plant(argv[++i])) {
      return usage();
    }
  }
  Coverage coverage;
  std::uint64_t steps = 0, faults = 0, events = 0, wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Outcome outcome = run_schedule(seed + i, coverage, transcript ? &std::cout : nullptr);
    steps += outcome.steps;
    faults += static_cast<std::uint64_t>(outcome.faults);
    events += outcome.events;
    if (outcome.violation.empty()) continue;
    ++wrong;
    std::cout << "seed " << seed + i << ": " << outcome.violation << "\n";
    if (!keep_going) break;
  }
  if (coverage_too) std::cout << coverage.summary().table;
  std::cout << count << " schedules, " << steps << " steps, " << faults << " faults, " << events
            << " events, " << wrong << " violations\n";
  return wrong == 0 ? 0 : 1;
}
