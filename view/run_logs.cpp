#include "view/run_logs.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"

namespace rekindle::view {
namespace {

constexpr std::string_view kTime = "0000-00-00T00:00:00.000Z";
constexpr std::string_view kLocalTime = "0000-00-00 00:00:00.000";  // of runs that began before it was UTC
constexpr std::size_t kMostLines = 10'000'000;                      // of one file, in one call

bool begins_like(std::string_view line, std::string_view pattern) {
  return line.size() >= pattern.size() &&
         std::equal(pattern.begin(), pattern.end(), line.begin(),
                    [](char wanted, char c) { return wanted == '0' ? c >= '0' && c <= '9' : c == wanted; });
}

// The characters of the time that a line begins with; 0: none.
std::size_t size_of_time(std::string_view line) {
  for (const std::string_view pattern : {kTime, kLocalTime})
    if (begins_like(line, pattern)) return pattern.size();
  return 0;
}

// Lines without a zone have the local time of their host, which is this one's if nobody has set another one.
std::string utc_of(std::string time) {
  if (time.size() == kTime.size()) return time;
  std::tm parts{};
  const char* const fraction = ::strptime(time.c_str(), "%Y-%m-%d %H:%M:%S", &parts);
  if (fraction == nullptr) return time;
  parts.tm_isdst = -1;
  const std::int64_t ms = std::strtol(fraction + 1, nullptr, 10);
  return utc_text(std::mktime(&parts) * std::int64_t{1000} + ms);
}

// The second word, behind the time.
std::string level_of(std::string_view line, std::size_t time) {
  line.remove_prefix(time);
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
    if (const std::size_t time = size_of_time(line); time > 0) {
      file.time = utc_of(line.substr(0, time));
      made.level = level_of(line, time);
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
