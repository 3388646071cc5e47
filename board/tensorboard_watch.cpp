#include "board/tensorboard_watch.hpp"

#include <unistd.h>

#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace rekindle::board {
namespace {

constexpr std::uint64_t kSlice = std::uint64_t{4} << 20;

}  // namespace

TensorBoardWatch::TensorBoardWatch(const run::Layout& layout)
    : file_of_events_(layout.events()),
      metrics_(layout.metrics()),
      events_(file_of_events_),
      files_(layout, {.name = str(host_name(), ".", ::getpid()),
                      .seconds = static_cast<std::uint64_t>(std::time(nullptr))}) {}

Status TensorBoardWatch::begin() {
  if (begun_) return {};
  REKINDLE_CHECK(files_.begin_metrics());
  begun_ = true;
  return {};
}

Result<bool> TensorBoardWatch::look() {
  REKINDLE_CHECK(begin());
  REKINDLE_TRY(const bool more, read_metrics());
  if (more) return true;
  REKINDLE_CHECK(read_events());
  REKINDLE_CHECK(files_.caught_up(boot_time()));
  return false;
}

Result<bool> TensorBoardWatch::read_metrics() {
  REKINDLE_CHECK(files_.make_room());
  if (!slice_) {
    REKINDLE_TRY(slice_, metrics_.read_slice(kSlice));
  }
  if (slice_->anew) REKINDLE_CHECK(files_.begin_metrics());
  std::string_view rest = slice_->text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (const view::MetricsLine* line = reader_.read(rest.substr(0, end))) files_.on_metrics(*line);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return std::exchange(slice_, std::nullopt)->more;
}

Status TensorBoardWatch::read_events() {
  std::vector<std::string> lines;
  REKINDLE_CHECK(events_.read([&](const std::string& line, bool anew) {
    begin_events_ = begin_events_ || anew;
    lines.push_back(line);
  }));
  if (begin_events_) {
    if (auto begun = files_.begin_events(); !begun) {
      events_ = view::LineTail(file_of_events_);  // all lines are given again then
      return begun;
    }
    begin_events_ = false;
  }
  for (const std::string& line : lines) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object()) files_.on_event(event);
  }
  return {};
}

Status TensorBoardWatch::finish() {
  for (bool more = true; more;) {
    REKINDLE_TRY(more, look());
  }
  return files_.finish();
}

}  // namespace rekindle::board
