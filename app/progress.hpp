// The progress display of a run: a line that is redrawn on a terminal, otherwise a log line every 10 s.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "protocol/messages.hpp"

namespace rekindle::app {

class ProgressView {
 public:
  // `log_interval`: a line of its own for each so many steps. 0: only by time.
  explicit ProgressView(std::FILE* out = stdout, std::uint64_t log_interval = 0);
  // The trainers compute the first step of this attempt. Prints no progress until show().
  void first_step();
  void show(const protocol::Progress& progress);
  void say(const std::string& line);  // on a line of its own
  void tick();                        // call this a few times a second

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kStarting, kFirstStep, kSteps };
  void draw(const std::string& line);
  void clear();

  std::FILE* const out_;
  const bool terminal_;
  const std::uint64_t log_interval_;
  bool drawn_ = false;
  Stage stage_ = Stage::kStarting;
  Clock::time_point last_ = Clock::now(), first_step_since_;
};

// One line of at most `width` characters. If the line is too long, the least important parts are left out.
std::string describe(const protocol::Progress& progress, std::size_t width);

}  // namespace rekindle::app
