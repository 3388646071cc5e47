// What the person sees while a run goes on: a line that moves on a terminal, a log line every 10 s elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "protocol/messages.hpp"

namespace rekindle::app {

class ProgressView {
 public:
  ProgressView();
  void show(const protocol::Progress& progress);
  void say(const std::string& line);  // on a line of its own

 private:
  void clear();

  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

std::string describe(const protocol::Progress& progress);

}  // namespace rekindle::app
