// A test with one run that continues until it is stopped. The run is then finished and compared with an
// undisturbed run.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "harness.hpp"

namespace rekindle::process_test {

class LiveRun : public ::testing::Test {
 protected:
  void TearDown() override;
  fs::path dir() const { return scratch_ / "run"; }
  std::string log() const;  // the log of the coordinator
  bool logged(const std::string& words) const { return log().find(words) != std::string::npos; }
  // How often the log contains `words`.
  int times_logged(const std::string& words) const;
  // All lines of the logs of all trainers.
  std::string trainer_logs() const;
  // The trainer's name in logs; empty if the process is gone.
  static std::string name_of(pid_t trainer);
  // A checkpoint that is being written.
  std::optional<fs::path> unfinished_checkpoint() const;

  void begin(int workers, const Arguments& more = {}, const Arguments& prefix = {});
  void wait_for_step(std::uint64_t step);
  void wait_for_steps(std::uint64_t more) { wait_for_step(reached_step(dir()) + more); }
  void wait_for_log(const std::string& words, int times = 1);
  // Stops the run, finishes it at a later step, and compares the result.
  void stop_and_compare();
  // The same for a run that has already ended with exit code 75.
  void finish_and_compare();

  Scratch scratch_;
  std::optional<Program> program_;
};

}  // namespace rekindle::process_test
