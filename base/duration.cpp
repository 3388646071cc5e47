#include "base/duration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/text.hpp"

namespace rekindle {

namespace {

constexpr double kMostMilliseconds = 1e12;  // 30 years

// Milliseconds. Units with the same meaning are adjacent; larger units come later.
constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{
    {{"ms", 1}, {"s", 1e3}, {"sec", 1e3}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};

double unit_named(std::string_view name) {
  for (const auto& [known, milliseconds] : kUnits) {
    if (name == known) return milliseconds;
  }
  return 0;
}

std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// The letters at the start of `text`.
std::string_view leading_word(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), text.size()));
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto wrong =
      fail(ExitCode::kUsage, str("'", text, "' is not a duration"), "write for example 30s, 10min or 1h30m");
  if (text.empty()) return wrong;
  double sum = 0, last_unit = std::numeric_limits<double>::infinity();
  for (std::string_view rest = text; !rest.empty(); rest = without_spaces(rest)) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), value, std::chars_format::fixed);
    if (error != std::errc() || !(value >= 0)) return wrong;
    const bool all = end == text.data() + text.size() && rest.data() == text.data();
    if (all && value < 1e9)
      return fail(ExitCode::kUsage, str("'", text, "' has no unit"),
                  str("write ", text, "s, ", text, "min or ", text, "h"));
    rest = without_spaces(rest.substr(static_cast<std::size_t>(end - rest.data())));
    const std::string_view name = leading_word(rest);
    const double unit = unit_named(name);
    if (unit == 0 || unit >= last_unit) return wrong;
    sum += value * unit;
    last_unit = unit;
    rest.remove_prefix(name.size());
  }
  if (!(sum < kMostMilliseconds)) return wrong;
  return std::chrono::milliseconds(static_cast<std::int64_t>(sum));
}

Result<std::chrono::milliseconds> parse_duration(std::string_view option, std::string_view text) {
  auto duration = parse_duration(text);
  if (!duration) duration.error().what = str(option, " ", duration.error().what);
  return duration;
}

std::string format_duration(std::chrono::milliseconds duration) {
  const auto seconds = (duration.count() + 500) / 1000;
  if (seconds < 60) return str(seconds, "s");
  const auto both = [](std::int64_t large, const char* unit, std::int64_t small, const char* smaller) {
    return small == 0 ? str(large, unit) : str(large, unit, " ", small, smaller);
  };
  if (seconds < 3600) return both(seconds / 60, "min", seconds % 60, "s");
  if (seconds < 86400) return both(seconds / 3600, "h", seconds % 3600 / 60, "min");
  return both(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

}  // namespace rekindle
