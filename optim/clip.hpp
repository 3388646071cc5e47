// Clipping of the gradient by its global norm (--clip-norm), as torch.nn.utils.clip_grad_norm_ has it.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace rekindle::optim {

// The sum of squares of a gradient that comes in pieces. The order of the additions depends only on the
// position of each element: element i is added to sum i % 16, and the 16 sums are added at the end. So the
// result does not depend on the number of pieces, which depends on the number of trainers.
class SquaredNorm {
 public:
  // The next elements. The size of a piece is a multiple of 16, except that of the last one.
  void add(std::span<const float> piece);
  double value() const;

 private:
  std::array<double, 16> sums_{};
};

// The factor for a gradient of that norm, so that its norm is at most `limit`: min(1, limit / (norm + 1e-6)).
// `norm` is finite.
double clip_factor(double norm, double limit);

}  // namespace rekindle::optim
