#include "board/tensorboard_watch.hpp"

#include <unistd.h>

#include <ctime>
#include <string_view>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace rekindle::board {
namespace {

constexpr std::uint64_t kSlice = std::uint64_t{4} << 20;

}  // namespace

TensorBoardWatch::TensorBoardWatch(const run::Layout& layout)
    : metrics_(layout.metrics()),
      events_(layout.events()),
      files_(layout, {.name = str(host_name(), ".", ::getpid()),
                      .seconds = static_cast<std::uint64_t>(std::time(nullptr))}) {}

Status TensorBoardWatch::begin() {
  if (begun_) return {};
  REKINDLE_CHECK(files_.begin_events());
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
  REKINDLE_TRY(const auto slice, metrics_.read_slice(kSlice));
  if (slice.anew) REKINDLE_CHECK(files_.begin_metrics());
  std::string_view rest = slice.text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (const view::MetricsLine* line = reader_.read(rest.substr(0, end)))
      REKINDLE_CHECK(files_.on_metrics(*line));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return slice.more;
}

Status TensorBoardWatch::read_events() {
  Status begun;
  bool first = true;
  REKINDLE_CHECK(events_.read([&](const std::string& line, bool anew) {
    if (anew && std::exchange(first, false)) begun = files_.begin_events();
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (begun && event.is_object()) files_.on_event(event);
  }));
  return begun;
}

Status TensorBoardWatch::finish() {
  for (bool more = true; more;) {
    REKINDLE_TRY(more, look());
  }
  return files_.finish();
}

}  // namespace rekindle::board
