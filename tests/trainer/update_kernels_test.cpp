// The kernels of the optimizers have the bits of the code for the host.
#include <gtest/gtest.h>

#include <vector>

#include "../device/odd_floats.hpp"
#include "device/kernels.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::trainer {
namespace {

using device::testing::draw;
using device::testing::Floats;
using device::testing::kCount;
using device::testing::same_bits;

TEST(UpdateKernels, Sgd_HasTheBitsOfTheOptimizer) {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      if (nesterov && momentum == 0) continue;
      const double dampening = nesterov ? 0 : 0.1;
      const auto optimizer = std::move(optim::make_optimizer({.name = "sgd",
                                                              .weight_decay = 5e-4,
                                                              .momentum = momentum,
                                                              .dampening = momentum > 0 ? dampening : 0,
                                                              .nesterov = nesterov})
                                           .value());
      Floats p = draw(1), q = p, m(kCount), n(kCount);
      for (std::uint64_t step = 0; step < 5; ++step) {
        const Floats sum = draw(10 + step);
        const optim::Step of{.number = step, .scale = 0.125F, .learning_rate = 0.05};
        const std::span<float> states[] = {m};
        optimizer->update(of, p, momentum > 0 ? std::span(states) : std::span<const std::span<float>>(), sum);
        device::SgdUpdate update;
        const double keep = step == 0 || momentum == 0 ? 1 : 1 - dampening;
        update.numbers = {0.125F,
                          static_cast<float>(of.learning_rate),
                          static_cast<float>(momentum),
                          static_cast<float>(keep),
                          static_cast<float>(5e-4),
                          nesterov};
        update.parameters = q.data();
        update.momentum = momentum > 0 ? n.data() : nullptr;
        update.sum = sum.data();
        update.count = kCount;
        device::run_on_host(update);
        EXPECT_TRUE(same_bits(p, q)) << momentum << " " << nesterov << " " << step;
        EXPECT_TRUE(momentum == 0 || same_bits(m, n));
      }
    }
  }
}

}  // namespace
}  // namespace rekindle::trainer
