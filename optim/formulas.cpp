#include "optim/formulas.hpp"

#include "base/each_width.hpp"

// clang has no target_clones for templates.
#define REKINDLE_LOOP_0(FORMULA)                                                                \
  REKINDLE_EACH_WIDTH                                                                           \
  void each(const FORMULA f, float* __restrict p, const float* __restrict sum, std::size_t n) { \
    for (std::size_t i = 0; i < n; ++i) f(p[i], sum[i]);                                        \
  }
#define REKINDLE_LOOP_1(FORMULA)                                                                    \
  REKINDLE_EACH_WIDTH                                                                               \
  void each(const FORMULA f, float* __restrict p, float* __restrict a, const float* __restrict sum, \
            std::size_t n) {                                                                        \
    for (std::size_t i = 0; i < n; ++i) f(p[i], a[i], sum[i]);                                      \
  }
#define REKINDLE_LOOP_2(FORMULA)                                                            \
  REKINDLE_EACH_WIDTH                                                                       \
  void each(const FORMULA f, float* __restrict p, float* __restrict a, float* __restrict b, \
            const float* __restrict sum, std::size_t n) {                                   \
    for (std::size_t i = 0; i < n; ++i) f(p[i], a[i], b[i], sum[i]);                        \
  }

namespace rekindle::optim {
namespace {

REKINDLE_LOOP_0(PlainSgd)
REKINDLE_LOOP_1(MomentumSgd)
REKINDLE_LOOP_1(NesterovSgd)
REKINDLE_LOOP_2(AdamFormula)
REKINDLE_LOOP_2(AdadeltaFormula)
REKINDLE_LOOP_1(PlainRmsprop)
REKINDLE_LOOP_2(MomentumRmsprop)

}  // namespace

void update_on_host(const Formula& formula, std::span<float> parameters,
                    std::span<const std::span<float>> states, std::span<const float> sum) {
  std::visit(
      [&]<class F>(const F& f) {
        static_assert(F::kStates <= 2, "a formula with more states needs a branch here");
        float* const p = parameters.data();
        if constexpr (F::kStates == 0) each(f, p, sum.data(), sum.size());
        if constexpr (F::kStates == 1) each(f, p, states[0].data(), sum.data(), sum.size());
        if constexpr (F::kStates == 2) each(f, p, states[0].data(), states[1].data(), sum.data(), sum.size());
      },
      formula);
}

}  // namespace rekindle::optim
