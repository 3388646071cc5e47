#include "model/loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rekindle::model {

Loss cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                   std::span<float> gradient, double label_smoothing) {
  const std::size_t images = labels.size(), classes = logits.size() / images;
  Loss loss;
  for (std::size_t i = 0; i < images; ++i) {
    const auto row = logits.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    const auto largest = std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit) - *largest);
    const double log_sum = *largest + std::log(sum);
    loss.sum += (1 - label_smoothing) * (log_sum - row[label]);
    if (label_smoothing > 0) {
      double all = 0;
      for (const float logit : row) all += log_sum - logit;
      loss.sum += label_smoothing * all / static_cast<double>(classes);
    }
    loss.correct += static_cast<std::size_t>(largest - row.begin()) == label;
    if (gradient.empty()) continue;
    for (std::size_t c = 0; c < classes; ++c) {
      const double probability = std::exp(row[c] - log_sum);
      const double target =
          (c == label ? 1 - label_smoothing : 0.0) + label_smoothing / static_cast<double>(classes);
      gradient[i * classes + c] = static_cast<float>((probability - target) / static_cast<double>(images));
    }
  }
  return loss;
}

}  // namespace rekindle::model
