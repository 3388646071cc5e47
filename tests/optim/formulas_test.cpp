// The loops of the host, in each width of the processor's vectors, have the bits of the formula for one
// element, which a GPU computes.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "../device/odd_floats.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::optim {
namespace {

using device::testing::draw;
using device::testing::Floats;
using device::testing::kCount;
using device::testing::same_bits;

const std::vector<Options> kAll = {{.weight_decay = 5e-4},
                                   {.weight_decay = 5e-4, .momentum = 0.9, .dampening = 0.1},
                                   {.weight_decay = 5e-4, .momentum = 0.9, .nesterov = true},
                                   {.name = "adam", .weight_decay = 1e-2},
                                   {.name = "adamw", .weight_decay = 1e-2},
                                   {.name = "adadelta", .weight_decay = 1e-2},
                                   {.name = "rmsprop", .weight_decay = 1e-2},
                                   {.name = "rmsprop", .momentum = 0.9}};

void by_element(const Formula& formula, Floats& p, std::array<Floats, 2>& s, const Floats& sum) {
  std::visit(
      [&]<class F>(const F& f) {
        for (std::size_t i = 0; i < sum.size(); ++i) {
          if constexpr (F::kStates == 0) f(p[i], sum[i]);
          if constexpr (F::kStates == 1) f(p[i], s[0][i], sum[i]);
          if constexpr (F::kStates == 2) f(p[i], s[0][i], s[1][i], sum[i]);
        }
      },
      formula);
}

TEST(Formulas, TheLoopHasTheBitsOfTheFormula) {
  for (const Options& options : kAll) {
    const auto optimizer = std::move(make_optimizer(options).value());
    ASSERT_NE(optimizer->as_formula(), nullptr);
    Floats p = draw(1), q = p;
    std::array<Floats, 2> s = {Floats(kCount), Floats(kCount)}, t = s;
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Floats sum = draw(10 + step);
      const Step of{.number = step, .scale = 0.125F, .learning_rate = 0.05};
      const std::vector<std::span<float>> all(s.begin(), s.end());
      optimizer->update(of, p, std::span(all).first(optimizer->states().size()), sum);
      by_element(optimizer->as_formula()->formula(of), q, t, sum);
      EXPECT_TRUE(same_bits(p, q) && same_bits(s[0], t[0]) && same_bits(s[1], t[1]))
          << options.name << " with momentum " << options.momentum << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace rekindle::optim
