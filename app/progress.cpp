#include "app/progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/duration.hpp"
#include "base/lines.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "view/terminal.hpp"

namespace rekindle::app {

ProgressView::ProgressView(std::FILE* out, std::uint64_t log_interval)
    : out_(out), terminal_(view::is_terminal(out)), log_interval_(log_interval) {}

protocol::Progress SteadySpeed::of(protocol::Progress progress, Time now) {
  constexpr double kMemory = 30;  // seconds
  if (progress.images_per_second <= 0) return progress;
  const double newest = 1 / progress.images_per_second;
  const double passed = std::chrono::duration<double>(now - last_).count();
  const bool begins = seconds_per_image_ == 0 || trainers_ != progress.trainers;
  const double weight = begins ? 1 : 1 - std::exp(-std::max(passed, newest) / kMemory);
  seconds_per_image_ += weight * (newest - seconds_per_image_);
  trainers_ = progress.trainers;
  last_ = now;
  progress.seconds_left *= seconds_per_image_ / newest;
  progress.images_per_second = 1 / seconds_per_image_;
  return progress;
}

std::string describe(const protocol::Progress& p, std::size_t width) {
  std::ostringstream loss, speed;
  loss << "loss " << std::fixed << std::setprecision(4) << p.loss;
  // Less than one: two significant digits.
  if (p.images_per_second >= 1)
    speed << std::fixed << std::setprecision(1);
  else
    speed << std::setprecision(2);
  speed << p.images_per_second << " images/s";
  const auto left = std::chrono::milliseconds(static_cast<std::int64_t>(p.seconds_left * 1000));
  std::array<std::string, 6> parts = {str("step ", p.step, "/", p.steps),
                                      str("epoch ", p.epoch + 1),
                                      loss.str(),
                                      speed.str(),
                                      str(p.trainers, p.trainers == 1 ? " trainer" : " trainers"),
                                      str(format_duration(left), " left")};
  const auto joined = [&parts] {
    std::string line;
    for (const std::string& part : parts) line += (line.empty() || part.empty() ? "" : "  ") + part;
    return line;
  };
  for (const std::size_t least : {4, 1, 5, 3, 2}) {
    if (joined().size() > width) parts[least].clear();
  }
  return joined().substr(0, width);
}

void ProgressView::draw(const std::string& line) {
  clear();
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
  drawn_ = true;
  last_ = Clock::now();
}

void ProgressView::clear() {
  if (drawn_) std::fputs("\r\033[K", out_);
  drawn_ = false;
}

const char* ProgressView::text_of(protocol::Activity activity) const {
  if (activity == protocol::Activity::kEvaluating) return "evaluating";
  if (any_step_) return nullptr;
  return activity == protocol::Activity::kForming ? "the trainers start" : "first step under way";
}

void ProgressView::on_activity(protocol::Activity activity) {
  const auto now = Clock::now();
  const bool changed = activity_ != activity;
  if (changed) activity_since_ = now;
  activity_ = activity;
  const char* const text = text_of(activity);
  if (text == nullptr) return;
  const auto since = std::chrono::floor<std::chrono::seconds>(now - activity_since_);
  const std::string line = since.count() == 0 ? text : str(text, ", ", format_duration(since));
  if (terminal_) {
    draw(line.substr(0, view::columns_of(out_, 79)));
  } else if (now - last_ >= std::chrono::seconds(10) || (changed && !any_step_)) {
    last_ = now;
    log_info(line);
  }
}

void ProgressView::show(const protocol::Progress& reported) {
  any_step_ = true;
  const protocol::Progress progress = speed_.of(reported, Clock::now());
  if (log_interval_ > 0 && progress.step % log_interval_ == 0)
    say(describe(progress, std::numeric_limits<std::size_t>::max()));
  if (terminal_) {
    draw(describe(progress, view::columns_of(out_, 79)));
  } else if (log_interval_ == 0 && Clock::now() - last_ >= std::chrono::seconds(10)) {
    last_ = Clock::now();
    log_info(describe(progress, std::numeric_limits<std::size_t>::max()));
  }
}

void ProgressView::show(const EvaluationProgress& progress) {
  if (!terminal_) return;
  std::string line = str("evaluated ", progress.done, "/", progress.of);
  if (progress.left)
    line += str("  ", format_duration(std::chrono::round<std::chrono::seconds>(*progress.left)), " left");
  draw(line.substr(0, view::columns_of(out_, 79)));
}

std::function<void(const std::string&)> evaluation_shown_by(ProgressView& view) {
  struct First {
    std::uint64_t done = 0;
    std::chrono::steady_clock::time_point at;
  };
  return [&view, first = std::optional<First>()](const std::string& lines) mutable {
    const auto line = nlohmann::json::parse(last_line_of(lines), nullptr, false);
    if (!line.contains("evaluated")) return view.clear();
    const auto now = std::chrono::steady_clock::now();
    const auto done = line.value("evaluated", std::uint64_t{0}), of = line.value("of", std::uint64_t{0});
    if (!first) first = First{.done = done, .at = now};
    EvaluationProgress progress{.done = done, .of = of};
    if (done > first->done)
      progress.left = (now - first->at) * (static_cast<double>(of - std::min(of, done)) /
                                           static_cast<double>(done - first->done));
    view.show(progress);
  };
}

void ProgressView::say(const std::string& line) {
  clear();
  std::fprintf(out_, "%s\n", printable(line).c_str());
  std::fflush(out_);
}

void ProgressView::warn(const std::string& what) {
  say("warning: " + what);
  log_to_file(LogLevel::kWarning, what);
}

}  // namespace rekindle::app
