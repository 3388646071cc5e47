#include "view/run_logs.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/input_file.hpp"
#include "base/printable.hpp"

namespace rekindle::view {
namespace {

constexpr std::string_view kTimePattern = "0000-00-00 00:00:00.000";
constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

bool is_time(std::string_view text) {
  return text.size() >= kTimePattern.size() &&
         std::equal(kTimePattern.begin(), kTimePattern.end(), text.begin(), [](char pattern, char c) {
           return pattern == '0' ? c >= '0' && c <= '9' : c == pattern;
         });
}

// The second word behind the time.
std::string level_of(std::string_view line) {
  line.remove_prefix(kTimePattern.size());
  if (!line.starts_with(' ')) return "";
  line.remove_prefix(1);
  const std::string_view word = line.substr(0, line.find(' '));
  for (const char* level : {"debug", "info", "warning", "error"})
    if (word == level) return level;
  return "";
}

}  // namespace

Status RunLogs::read_new_of(const std::string& name, std::vector<LogLine>& lines) {
  REKINDLE_TRY(const InputFile file, open_input(layout_.logs() / name));
  Place& place = places_[name];
  if (file.size < place.offset) place = {};  // another file has this name now
  std::string text;
  while (place.offset + text.size() < file.size) {
    const std::uint64_t begin = place.offset + text.size(), count = std::min(kPiece, file.size - begin);
    const std::size_t before = text.size();
    text.resize(before + count);
    REKINDLE_CHECK(file.read(begin, std::as_writable_bytes(std::span(text).subspan(before))));
    std::size_t done = 0;
    for (std::size_t end; (end = text.find('\n', done)) != std::string::npos; done = end + 1) {
      const std::string_view line(text.data() + done, end - done);
      LogLine made;
      if (is_time(line)) {
        place.time = line.substr(0, kTimePattern.size());
        made.level = level_of(line);
      }
      made.time = place.time;
      made.text = printable(line);
      lines.push_back(std::move(made));
    }
    text.erase(0, done);
    place.offset += done;
    if (text.size() > kLongestLine) {  // it is no log
      place.offset += text.size();
      text.clear();
    }
  }
  return {};
}

Result<std::vector<LogLine>> RunLogs::read_new() {
  std::vector<LogLine> lines;
  REKINDLE_TRY(const std::vector<std::string> names, names_in(layout_.logs()));
  for (const std::string& name : names) {
    if (name.ends_with(".log")) REKINDLE_CHECK(read_new_of(name, lines));
  }
  std::ranges::stable_sort(lines, {}, &LogLine::time);
  return lines;
}

}  // namespace rekindle::view
