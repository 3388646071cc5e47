// The course of a number over the steps of a run, drawn with characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::view {

struct Point {
  std::uint64_t step = 0;
  double value = 0;  // finite

  bool operator==(const Point&) const = default;
};

// Four digits, for people: "0.2128", "1.5e+09".
std::string short_number(double value);

// The values of `name` in metrics.jsonl, by step; `names` gets every name of a number that is there. None if
// there is no such file; an error if it cannot be opened.
Result<std::vector<Point>> read_curve(const run::Layout& layout, const std::string& name,
                                      std::vector<std::string>& names);

struct CurveStyle {
  std::size_t columns = 80, rows = 20;  // of the whole picture
  bool logarithmic = false;             // the values' axis; only positive values are shown then
  bool unicode = true;                  // eight dots for each character (braille), or '*'
};

// The lines of the picture: the curve with its axes. Every value is shown: a column has the range of the
// values of its steps.
std::vector<std::string> draw(const std::vector<Point>& points, const CurveStyle& style);

}  // namespace rekindle::view
