#include "view/run_logs.hpp"

#include <algorithm>
#include <string_view>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"

namespace rekindle::view {
namespace {

constexpr std::string_view kTimePattern = "0000-00-00 00:00:00.000";
constexpr std::size_t kMostLines = 10'000'000;  // of one file, in one call

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

Status RunLogs::read_new_of(const std::string& name, std::size_t most, std::vector<LogLine>& lines) {
  File& file = files_.try_emplace(name, layout_.logs() / name).first->second;
  if (!file.begun && last_bytes_ != UINT64_MAX) REKINDLE_CHECK(file.tail.skip_to_last(last_bytes_));
  file.begun = true;
  const std::size_t first = lines.size();
  Status read = file.tail.read([&](const std::string& line, bool anew) {
    if (anew && lines.size() == first) file.time.clear();  // another file has this name now
    LogLine made;
    if (is_time(line)) {
      file.time = line.substr(0, kTimePattern.size());
      made.level = level_of(line);
    }
    made.time = file.time;
    made.text = printable(line);
    lines.push_back(std::move(made));
    if (lines.size() - first >= 2 * most)  // more of this file are never shown
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(first),
                  lines.end() - static_cast<std::ptrdiff_t>(most));
  });
  if (!read) lines.resize(first);  // the next call has all of them
  return read;
}

Result<std::vector<LogLine>> RunLogs::read_new(std::size_t most) {
  std::vector<LogLine> lines;
  REKINDLE_TRY(const std::vector<std::string> names, names_in(layout_.logs()));
  for (const std::string& name : names) {
    if (!name.ends_with(".log")) continue;
    const Status read = read_new_of(name, std::clamp<std::size_t>(most, 1, kMostLines), lines);
    if (!read && warned_.insert(name).second) log_warning(read.error().line());  // the others go on
  }
  std::ranges::stable_sort(lines, {}, &LogLine::time);
  return lines;
}

}  // namespace rekindle::view
