#include "board/tensorboard.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "board/event_record.hpp"

namespace rekindle::board {
namespace {

constexpr std::size_t kMostWaiting = std::size_t{1} << 20;  // bytes
constexpr std::chrono::milliseconds kBetweenWrites{1000};
constexpr std::size_t kMostTags = 64, kMostTagBytes = 128;  // of a line, of a tag
constexpr const char* kTextTag = "events";
// Numbers of metrics.jsonl that say where a step is, not how good. Times of steps are on the page of the run.
constexpr std::string_view kNoScalars[] = {"attempt", "epoch", "test_count", "trainers"};
// What an operator looks for. There may be thousands of the others.
constexpr std::string_view kTexts[] = {"started", "lost",     "recovered", "requeued",
                                       "stopped", "finished", "gave_up"};

std::uint64_t hash_of(std::string_view text) { return hash64(std::as_bytes(std::span(text))); }

bool is_scalar(std::string_view name) {
  return !name.empty() && name.size() <= kMostTagBytes && !name.ends_with("_ms") &&
         std::ranges::find(kNoScalars, name) == std::end(kNoScalars);
}

std::vector<std::pair<std::string, double>> scalars_in(const view::MetricsLine& line) {
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [name, value] : line.numbers)
    if (is_scalar(name) && scalars.size() < kMostTags) scalars.emplace_back(name, value);
  return scalars;
}

// "**lost** after step 12: host n1, trainer w0.0-1, why killed by signal 9"
std::string text_of(const std::string& event, std::uint64_t step, const nlohmann::json& line) {
  std::string text = str("**", event, "** after step ", step), more;
  if (const auto told = line.find("text"); told != line.end() && told->is_string())
    return text + ": " + told->get<std::string>();
  for (const auto& [key, value] : line.items()) {
    if (key == "event" || key == "at" || key == "step" || !value.is_primitive()) continue;
    more += str(more.empty() ? ": " : ", ", key, " ",
                value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text + more;
}

}  // namespace

std::optional<double> seconds_of(std::string_view utc) {
  constexpr double kSecond = 1000;  // milliseconds
  const auto milliseconds = parse_utc(std::string(utc));
  if (!milliseconds) return std::nullopt;
  return static_cast<double>(*milliseconds) / kSecond;
}

ScalarFiles::ScalarFiles(const FilePath& folder, const Writer& writer)
    : files_(folder, writer.name, writer.seconds), wall_time_(static_cast<double>(writer.seconds)) {}

ScalarFiles::Course& ScalarFiles::course_of(std::string_view first_tag) {
  return courses_[first_tag.starts_with("test_") ? 1 : 0];
}

Status ScalarFiles::begin() {
  REKINDLE_CHECK(files_.write());
  courses_ = {};
  return files_.read([&](std::string_view bytes) {
    const auto event = decode(bytes);
    if (!event || (event->first_tag.empty() && !event->start)) return;
    const auto drop = [&](Course& course) {
      const auto first = std::ranges::lower_bound(course.known, event->step, {}, &Known::step);
      course.known.erase(first, course.known.end());
    };
    if (event->start) {
      for (Course& course : courses_) drop(course);
      return;
    }
    Course& course = course_of(event->first_tag);
    drop(course);  // nothing, unless another program wrote the file
    course.known.push_back({event->step, hash_of(bytes)});
  });
}

void ScalarFiles::forget_from(std::uint64_t step) {
  for (Course& course : courses_) {
    const auto first = std::ranges::lower_bound(course.known, step, {}, &Known::step);
    course.known.erase(first, course.known.end());
    course.next = std::min(course.next, course.known.size());
    if (course.last >= step) course.last = step > 0 ? std::optional(step - 1) : std::nullopt;
  }
  files_.add(encode_start({.wall_time = wall_time_, .step = step}));
}

Status ScalarFiles::make_room() { return files_.waiting_bytes() < kMostWaiting ? Status() : files_.write(); }

void ScalarFiles::on_line(const view::MetricsLine& line) {
  wall_time_ = seconds_of(line.at).value_or(wall_time_);
  const auto scalars = scalars_in(line);
  if (scalars.empty()) return;
  const std::string event = encode_scalars({.wall_time = wall_time_, .step = line.step}, scalars);
  Course& course = course_of(scalars.front().first);
  if (course.next < course.known.size()) {
    const Known& next = course.known[course.next];
    if (line.step < next.step) return;  // it was late before
    if (line.step == next.step && hash_of(event) == next.hash) {
      ++course.next;
      course.last = line.step;
      return;
    }
    forget_from(next.step);
  }
  if (course.last >= line.step) return;
  course.last = line.step;
  files_.add(event);
}

void ScalarFiles::caught_up() {
  std::optional<std::uint64_t> gone;
  for (const Course& course : courses_) {
    if (course.next == course.known.size()) continue;
    const std::uint64_t step = course.known[course.next].step;
    gone = std::min(gone.value_or(step), step);
  }
  if (gone) forget_from(*gone);
  for (Course& course : courses_) course = {.known = {}, .next = 0, .last = course.last};
}

TextFiles::TextFiles(const FilePath& folder, const Writer& writer)
    : files_(folder, writer.name, writer.seconds), wall_time_(static_cast<double>(writer.seconds)) {}

Status TextFiles::begin() {
  REKINDLE_CHECK(files_.write());
  known_.clear();
  next_ = 0;
  last_.reset();
  return files_.read([&](std::string_view bytes) {
    const auto event = decode(bytes);
    if (event && event->first_tag == kTextTag) known_.push_back(hash_of(bytes));
  });
}

void TextFiles::on_event(const nlohmann::json& line) {
  const auto text = [&](const char* key) {
    const auto found = line.find(key);
    return found != line.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!line.is_object()) return;
  const std::string event = text("event");
  if (std::ranges::find(kTexts, event) == std::end(kTexts)) return;
  wall_time_ = seconds_of(text("at")).value_or(wall_time_);
  const auto found = line.find("step");
  const bool known = found != line.end() && found->is_number_integer() && found->get<std::int64_t>() >= 0;
  const std::uint64_t step = known ? found->get<std::uint64_t>() : 0;
  // TensorBoard's data server forgets the texts from a step on when a text of this step follows.
  last_ = last_ ? std::max(step, *last_ + 1) : step;
  const std::string bytes =
      encode_text({.wall_time = wall_time_, .step = *last_}, kTextTag, text_of(event, step, line));
  if (next_ < known_.size() && known_[next_] == hash_of(bytes)) {
    ++next_;
    return;
  }
  next_ = known_.size();
  files_.add(bytes);
}

TensorBoardFiles::TensorBoardFiles(const run::Layout& layout, const Writer& writer)
    : scalars_(layout.tensorboard(), writer), texts_(layout.tensorboard() / "events", writer) {}

Status TensorBoardFiles::caught_up(std::chrono::milliseconds now) {
  scalars_.caught_up();
  if (written_ && now - *written_ < kBetweenWrites) return {};
  written_ = now;
  return finish();
}

Status TensorBoardFiles::finish() {
  REKINDLE_CHECK(scalars_.write());
  return texts_.write();
}

}  // namespace rekindle::board
