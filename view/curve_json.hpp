// Curves as short JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "view/curve.hpp"
#include "view/series.hpp"

namespace rekindle::view {

// {"step": [...], "value": [...]} if each bucket is one value; otherwise "min", "mean" and "max" in place of
// "value". Numbers have six significant digits, and more if the values are so close together that a picture
// would show the rounding.
nlohmann::json curve_json(const Series& series);
// [[step, value], ...]
nlohmann::json points_json(const std::vector<Point>& points);

}  // namespace rekindle::view
