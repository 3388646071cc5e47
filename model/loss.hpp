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
// of the mean loss: (softmax - target) / images, where target = (1 - label_smoothing) * onehot +
// label_smoothing / classes (Szegedy et al. 2015; torch.nn.CrossEntropyLoss).
Loss cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                   std::span<float> gradient, double label_smoothing);

}  // namespace rekindle::model
