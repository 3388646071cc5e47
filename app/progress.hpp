// The progress display of a run: a line that is redrawn on a terminal, otherwise a log line every 10 s.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "protocol/messages.hpp"

namespace rekindle::app {

// How far `rekindle evaluate` is.
struct EvaluationProgress {
  std::uint64_t done = 0, of = 0;                       // test samples
  std::optional<std::chrono::duration<double>> left{};  // seconds
};

// The speed of the last half minute in place of that of one step, which may take twice as long as others.
class SteadySpeed {
 public:
  using Time = std::chrono::steady_clock::time_point;
  protocol::Progress of(protocol::Progress progress, Time now);

 private:
  double seconds_per_image_ = 0;  // 0: none yet
  int trainers_ = 0;              // other trainers have another speed
  Time last_;
};

class ProgressView {
 public:
  // `log_interval`: a line of its own for each so many steps. 0: only by time.
  explicit ProgressView(std::FILE* out = stdout, std::uint64_t log_interval = 0);
  // What the run is doing now; call this once a second. Shown while no step is being completed: at the start
  // of an attempt and during an evaluation.
  void on_activity(protocol::Activity activity);
  void show(const protocol::Progress& progress);
  void show(const EvaluationProgress& progress);  // only on a terminal
  void say(const std::string& line);              // on a line of its own
  void warn(const std::string& what);             // the same, as a warning, which is logged, too
  void clear();                                   // takes the line away

 private:
  using Clock = std::chrono::steady_clock;
  // What is shown in place of steps; nullptr: nothing.
  const char* text_of(protocol::Activity activity) const;
  void draw(const std::string& line);

  std::FILE* const out_;
  const bool terminal_;
  const std::uint64_t log_interval_;
  bool drawn_ = false, any_step_ = false;
  std::optional<protocol::Activity> activity_;  // the newest one, since `activity_since_`
  Clock::time_point last_ = Clock::now(), activity_since_;
  SteadySpeed speed_;
};

// Shows how far an evaluation is, from the lines of the trainer program (app/evaluate.hpp). `view` outlives
// it.
std::function<void(const std::string& lines)> evaluation_shown_by(ProgressView& view);

// One line of at most `width` characters. If the line is too long, the least important parts are left out.
std::string describe(const protocol::Progress& progress, std::size_t width);

}  // namespace rekindle::app
