#include "view/run_logs.hpp"

#include <algorithm>
#include <string_view>

#include "base/files.hpp"
#include "base/printable.hpp"

namespace rekindle::view {
namespace {

constexpr std::string_view kTimePattern = "0000-00-00 00:00:00.000";

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
  File& file = files_.try_emplace(name, layout_.logs() / name).first->second;
  REKINDLE_TRY(const LineTail::Lines fresh, file.tail.read());
  if (fresh.anew) file.time.clear();  // another file has this name now
  for (const std::string& line : fresh.texts) {
    LogLine made;
    if (is_time(line)) {
      file.time = line.substr(0, kTimePattern.size());
      made.level = level_of(line);
    }
    made.time = file.time;
    made.text = printable(line);
    lines.push_back(std::move(made));
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
