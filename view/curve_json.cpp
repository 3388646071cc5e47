#include "view/curve_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace rekindle::view {
namespace {

constexpr int kFewestDigits = 6, kMostDigits = 17;
// A picture shows differences of a ten thousandth of its height.
constexpr int kDigitsOfRange = 4;
constexpr double kExactWhole = 1e15;  // below, whole numbers are not rounded

int digits_for(double low, double high) {
  const double range = high - low, largest = std::max(std::abs(low), std::abs(high));
  if (!(range > 0) || !std::isfinite(range)) return kFewestDigits;
  const double lost = std::ceil(std::log10(largest / range));
  return std::clamp(static_cast<int>(lost) + kDigitsOfRange, kFewestDigits, kMostDigits);
}

// nlohmann writes the shortest digits that give the same number again.
double rounded(double value, int digits) {
  if (value == std::trunc(value) && std::abs(value) < kExactWhole) return value;
  std::array<char, 64> text{};
  const auto written = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, digits);
  double read = value;
  std::from_chars(text.begin(), written.ptr, read);
  return read;
}

// Whole numbers without ".0".
nlohmann::json number(double value, int digits) {
  const double made = rounded(value, digits);
  if (made == std::trunc(made) && std::abs(made) < kExactWhole) return static_cast<std::int64_t>(made);
  return made;
}

}  // namespace

nlohmann::json curve_json(const Series& series) {
  double low = INFINITY, high = -INFINITY;
  for (const Bucket& bucket : series.buckets()) {
    low = std::min(low, bucket.min);
    high = std::max(high, bucket.max);
  }
  const int digits = digits_for(low, high);
  const auto list = [&](double Bucket::*field) {
    nlohmann::json numbers = nlohmann::json::array();
    for (const Bucket& bucket : series.buckets()) numbers.push_back(number(bucket.*field, digits));
    return numbers;
  };
  nlohmann::json curve = {{"step", nlohmann::json::array()}};
  for (const Bucket& bucket : series.buckets()) curve["step"].push_back(bucket.last);
  if (series.exact()) {
    curve["value"] = list(&Bucket::mean);
  } else {
    curve["min"] = list(&Bucket::min);
    curve["mean"] = list(&Bucket::mean);
    curve["max"] = list(&Bucket::max);
  }
  return curve;
}

nlohmann::json points_json(const std::vector<Point>& points) {
  double low = INFINITY, high = -INFINITY;
  for (const Point& point : points) {
    low = std::min(low, point.value);
    high = std::max(high, point.value);
  }
  nlohmann::json list = nlohmann::json::array();
  for (const Point& point : points)
    list.push_back(nlohmann::json::array({point.step, number(point.value, digits_for(low, high))}));
  return list;
}

}  // namespace rekindle::view
