#include "view/curve.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "run/records.hpp"

namespace rekindle::view {
namespace {

constexpr std::size_t kLabel = 13;  // columns of the values' axis, with a space: room for -1.234e-05

// Dots of one character.
struct Cells {
  std::size_t across, down;
};

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;  // no number is cut
}

// UTF-8 of the character U+2800 + dots.
std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
          static_cast<char>(0x80 | (code & 0x3f))};
}

// Bit of the dot in column x and row y of a braille character.
unsigned dot(std::size_t x, std::size_t y) {
  constexpr unsigned kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
  return kDots[x][y];
}

class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows, bool unicode)
      : cells_(unicode ? Cells{2, 4} : Cells{1, 1}), columns_(columns), unicode_(unicode) {
    dots_.assign(rows, std::vector<unsigned>(columns));
  }
  std::size_t width() const { return columns_ * cells_.across; }
  std::size_t height() const { return dots_.size() * cells_.down; }
  // From the upper left corner.
  void set(std::size_t x, std::size_t y) {
    dots_[y / cells_.down][x / cells_.across] |= unicode_ ? dot(x % 2, y % 4) : 1U;
  }
  std::string row(std::size_t y) const {
    std::string text;
    for (const unsigned dots : dots_[y]) text += dots == 0 ? " " : unicode_ ? braille(dots) : "*";
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

 private:
  const Cells cells_;
  const std::size_t columns_;
  const bool unicode_;
  std::vector<std::vector<unsigned>> dots_;
};

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
};

}  // namespace

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

Result<std::vector<Point>> read_curve(const run::Layout& layout, const std::string& name,
                                      std::vector<std::string>& names) {
  REKINDLE_TRY(const auto there, look_at(layout.metrics()));
  if (!there) return std::vector<Point>();
  if (const auto file = open_file(layout.metrics(), O_RDONLY | O_NONBLOCK); !file)
    return forward_error(file.error());
  std::map<std::uint64_t, double> values;
  std::set<std::string> seen;
  run::each_line(layout.metrics(), [&](const nlohmann::json& line) {
    const auto step = line.find("step");
    if (step == line.end() || !step->is_number_unsigned()) return;
    for (const auto& [key, value] : line.items()) {
      if (!value.is_number() || key == "step") continue;
      seen.insert(key);
      if (key == name && std::isfinite(value.get<double>()))
        values[step->get<std::uint64_t>()] = value.get<double>();
    }
  });
  names.assign(seen.begin(), seen.end());
  std::vector<Point> points;
  points.reserve(values.size());
  for (const auto& [step, value] : values) points.push_back({step, value});
  return points;
}

std::vector<std::string> draw(const std::vector<Point>& all, const CurveStyle& style) {
  std::vector<Point> points;
  for (const Point& point : all)
    if (!style.logarithmic || point.value > 0)
      points.push_back({point.step, style.logarithmic ? std::log10(point.value) : point.value});
  if (points.empty()) return {};
  const std::size_t columns = std::max(style.columns, kLabel + 10) - kLabel,
                    rows = std::max<std::size_t>(style.rows, 4) - 2;
  Canvas canvas(columns, rows, style.unicode);
  Range range;
  for (const Point& point : points) range.add(point.value);
  if (range.low == range.high) {
    const double width = std::max(0.5, std::abs(range.high) * 1e-3);
    range.low -= width, range.high += width;
  }
  const auto steps =
      static_cast<double>(std::max<std::uint64_t>(points.back().step - points.front().step, 1));
  const auto column = [&](std::uint64_t step) {
    return static_cast<std::size_t>(static_cast<double>(step - points.front().step) / steps *
                                    static_cast<double>(canvas.width() - 1));
  };
  const auto row = [&](double value) {
    // Halved, because the difference of two large numbers may be none.
    const double share = (range.high / 2 - value / 2) / (range.high / 2 - range.low / 2);
    const double last = static_cast<double>(canvas.height() - 1);
    return static_cast<std::size_t>(
        std::lround(std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0) * last));
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t x = column(points[i].step), y = row(points[i].value);
    canvas.set(x, y);
    if (i == 0) continue;
    // A line from the point before.
    const std::size_t before_x = column(points[i - 1].step), before_y = row(points[i - 1].value);
    for (std::size_t between = before_x; between <= x; ++between) {
      const auto at = [&](double share) {
        const double distance = static_cast<double>(y) - static_cast<double>(before_y);
        return static_cast<std::size_t>(std::lround(static_cast<double>(before_y) + share * distance));
      };
      const auto width = static_cast<double>(x - before_x + 1), nth = static_cast<double>(between - before_x);
      const std::size_t from = at(nth / width), to = at((nth + 1) / width);
      for (std::size_t y_between = std::min(from, to); y_between <= std::max(from, to); ++y_between)
        canvas.set(between, y_between);
    }
  }
  const auto shown = [&](double value) { return style.logarithmic ? std::pow(10, value) : value; };
  std::vector<std::string> lines;
  for (std::size_t y = 0; y < rows; ++y) {
    std::string label;
    if (y == 0) label = short_number(shown(range.high));
    if (y + 1 == rows) label = short_number(shown(range.low));
    if (2 * y + 1 == rows || 2 * y == rows) label = short_number(shown(range.high / 2 + range.low / 2));
    lines.push_back(str(right(label, kLabel - 2), style.unicode ? " \u2502" : " |", canvas.row(y)));
  }
  std::string axis = std::string(kLabel - 1, ' ') + (style.unicode ? "\u2514" : "+");
  for (std::size_t x = 0; x < columns; ++x) axis += style.unicode ? "\u2500" : "-";
  lines.push_back(axis);
  const std::string first = std::to_string(points.front().step), last = std::to_string(points.back().step);
  lines.push_back(str(std::string(kLabel, ' '), first,
                      right(last, columns > first.size() ? columns - first.size() : last.size())));
  return lines;
}

}  // namespace rekindle::view
