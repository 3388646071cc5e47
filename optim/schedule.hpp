// Schedules of the learning rate: pure functions of the step, so that any trainer computes the same rate at
// any time.
//
// To add a schedule: its function and its row in optim/schedule.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rekindle::optim {

struct Schedule {
  std::string name = "step";
  double lr = 1e-3;
  std::uint64_t warmup_steps = 0;  // the rate grows linearly to lr over so many steps; 0: no warm-up
  std::uint64_t length = 0;        // steps of the run, as fixed at its first start: cosine, linear
  std::uint64_t step_epochs = 30;  // step: epochs between two decays
  std::vector<std::uint64_t> milestones = {};  // multi-step: epochs, ascending
  double gamma = 0.1;                          // step, multi-step, exponential
};

struct ScheduleRow {
  const char* name;
  const char* formula;  // for the documents
  // The rate at a step after the warm-up. `epoch`: of the step's first sample, from 0.
  double (*rate)(const Schedule& schedule, std::uint64_t step, std::uint64_t epoch);
  bool ends = false;         // the rate depends on the run's length, and is nearly 0 at its end
  const char* options = "";  // the command-line options that it has besides --lr and --warmup-steps
};
std::span<const ScheduleRow> schedules();
std::vector<std::string> names_of_schedules();
// ScheduleRow::ends. False for an unknown name.
bool ends_with_the_run(const std::string& schedule);
// Whether ScheduleRow::options has the option ("--lr-step"). False for an unknown name.
bool schedule_has(const std::string& schedule, std::string_view option);

// How far the run is after the warm-up, from 0 to 1. For the schedules.
double progress(const Schedule& schedule, std::uint64_t step);

// Errors (ExitCode::kConfig): an unknown name, milestones that do not ascend, a warm-up that is not shorter
// than the run.
Status check_schedule(const Schedule& schedule);

// The rate of the update number `step` (from 0), with the warm-up. Beyond `length`, cosine and linear keep
// their last rate. `schedule` has passed check_schedule().
double rate_at(const Schedule& schedule, std::uint64_t step, std::uint64_t epoch);

}  // namespace rekindle::optim
