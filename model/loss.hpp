// Softmax cross-entropy (log-softmax and negative log-likelihood) on host memory: logits are small, so the
// loss is the same few lines for every device.
#pragma once

#include <cstdint>
#include <span>

namespace rekindle::model {

struct Loss {
  double sum = 0;            // over the images
  std::int64_t correct = 0;  // images whose largest logit (the first of equals) is the label's
};

// `logits` is [labels.size(), classes], row-major. `gradient`, of the same shape or empty, gets the gradient
// of the mean loss: (softmax - onehot) / images.
Loss cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                   std::span<float> gradient);

}  // namespace rekindle::model
