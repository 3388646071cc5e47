// What the person sees while a run goes on: a line that moves on a terminal, a log line every 10 s elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "protocol/messages.hpp"

namespace rekindle::app {

class ProgressView {
 public:
  explicit ProgressView(std::FILE* out = stdout);
  // Trainers are at the first step of this attempt. Nothing more until show().
  void first_step();
  void show(const protocol::Progress& progress);
  void say(const std::string& line);  // on a line of its own
  void tick();                        // time goes by: call it a few times a second

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kStarting, kFirstStep, kSteps };
  void draw(const std::string& line);
  void clear();

  std::FILE* const out_;
  const bool terminal_;
  bool drawn_ = false;
  Stage stage_ = Stage::kStarting;
  Clock::time_point last_ = Clock::now(), first_step_since_;
};

// One line of at most `width` characters: where there is little room, what matters least is left out.
std::string describe(const protocol::Progress& progress, std::size_t width);

}  // namespace rekindle::app
