#include "app/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <iomanip>
#include <sstream>

#include "base/duration.hpp"
#include "base/log.hpp"

namespace rekindle::app {

using Clock = std::chrono::steady_clock;

ProgressView::ProgressView() : terminal_(::isatty(STDOUT_FILENO) == 1), last_(Clock::now()) {}

std::string describe(const protocol::Progress& p) {
  std::ostringstream line;
  line << "step " << p.step << "/" << p.steps << "  epoch " << p.epoch << "  loss " << std::fixed
       << std::setprecision(4) << p.loss << "  " << std::setprecision(1) << p.images_per_second
       << " images/s  " << p.trainers << " trainer" << (p.trainers == 1 ? "" : "s") << "  "
       << format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(p.seconds_left * 1000)))
       << " left";
  return line.str();
}

void ProgressView::clear() {
  if (drawn_) std::fputs("\r\033[K", stdout);
  drawn_ = false;
}

void ProgressView::show(const protocol::Progress& progress) {
  if (terminal_) {
    clear();
    std::fputs(describe(progress).c_str(), stdout);
    std::fflush(stdout);
    drawn_ = true;
  } else if (Clock::now() - last_ >= std::chrono::seconds(10)) {
    last_ = Clock::now();
    log_info(describe(progress));
  }
}

void ProgressView::say(const std::string& line) {
  clear();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace rekindle::app
