#include "base/duration.hpp"

#include <array>
#include <charconv>

#include "base/text.hpp"

namespace rekindle {

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits{
      {{"ms", 1}, {"s", 1e3}, {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};
  if (error == std::errc() && value >= 0 && value < 1e9) {
    for (const auto& [name, factor] : kUnits) {
      if (unit == name) return std::chrono::milliseconds(static_cast<std::int64_t>(value * factor));
    }
  }
  return fail(ExitCode::kUsage, str("'", text, "' is not a duration"),
              "give a number and a unit: ms, s, min, h or d");
}

std::string format_duration(std::chrono::milliseconds duration) {
  const auto seconds = (duration.count() + 500) / 1000;
  if (seconds < 60) return str(seconds, "s");
  if (seconds < 3600) return str(seconds / 60, "min ", seconds % 60, "s");
  if (seconds < 86400) return str(seconds / 3600, "h ", seconds % 3600 / 60, "min");
  return str(seconds / 86400, "d ", seconds % 86400 / 3600, "h");
}

}  // namespace rekindle
