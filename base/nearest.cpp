#include "base/nearest.hpp"

#include <algorithm>
#include <vector>

namespace rekindle {
namespace {

// Optimal string alignment distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  std::string best;
  std::size_t least = ~std::size_t{0};
  for (const std::string& name : names) {
    const std::size_t d = distance(word, name);
    if (d < least && d <= std::max(word.size(), name.size()) / 3) {
      least = d;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  if (const std::string near = nearest_name(word, names); !near.empty()) return "did you mean " + near + "?";
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "there is: " : ", ") + name;
  return all;
}

}  // namespace rekindle
