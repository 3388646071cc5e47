// The optimizers' loops: the bits of the formula, one operation at a time; pieces; options.
#include "optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "random_floats.hpp"

namespace rekindle::optim {
namespace {

// One operation at a time: `volatile` keeps the compiler from fusing, reordering or vectorising.
float mul(float a, float b) {
  volatile float c = a * b;
  return c;
}
float add(float a, float b) {
  volatile float c = a + b;
  return c;
}
float div(float a, float b) {
  volatile float c = a / b;
  return c;
}
float root(float a) {
  volatile float c = std::sqrt(a);
  return c;
}

// Parameters and states of an optimizer, all random (squares positive).
struct Memory {
  explicit Memory(const Optimizer& optimizer) : parameters(random_floats(1, -1, 1)) {
    for (const std::string& name : optimizer.states())
      states.push_back(
          random_floats(2 + states.size(), name == "momentum" || name == "exp_avg" ? -1 : 0.001F, 1));
  }
  void update(const Optimizer& optimizer, const Step& step, std::span<const float> sum, std::size_t first = 0,
              std::size_t count = kFloats) {
    std::vector<std::span<float>> pieces;
    for (auto& state : states) pieces.push_back(std::span(state).subspan(first, count));
    optimizer.update(step, std::span(parameters).subspan(first, count), pieces, sum.subspan(first, count));
  }
  bool operator==(const Memory&) const = default;

  std::vector<float> parameters;
  std::vector<std::vector<float>> states;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const Step kStep{.number = 6, .scale = 0.125F, .learning_rate = 0.01};

std::unique_ptr<Optimizer> made(const Options& options) {
  auto optimizer = make_optimizer(options);
  EXPECT_TRUE(optimizer) << optimizer.error().line();
  return std::move(*optimizer);
}

TEST(Sgd, BitsOfTheFormula) {
  for (const bool nesterov : {false, true}) {
    for (const double dampening : {0.0, 0.25}) {
      if (nesterov && dampening != 0) continue;
      const auto sgd =
          made({.weight_decay = 5e-4, .momentum = 0.9, .dampening = dampening, .nesterov = nesterov});
      Memory memory(*sgd), expected(*sgd);
      const auto sum = random_floats(9, -8, 8);
      for (std::size_t i = 0; i < kFloats; ++i) {
        float &p = expected.parameters[i], &m = expected.states[0][i];
        const float g = add(mul(0.125F, sum[i]), mul(5e-4F, p));
        m = add(mul(0.9F, m), mul(static_cast<float>(1 - dampening), g));
        p = add(p, -mul(0.01F, nesterov ? add(g, mul(0.9F, m)) : m));
      }
      memory.update(*sgd, kStep, sum);
      EXPECT_TRUE(same_bits(memory.parameters, expected.parameters)) << nesterov << " " << dampening;
      EXPECT_TRUE(same_bits(memory.states[0], expected.states[0])) << nesterov << " " << dampening;
    }
  }
}

TEST(Sgd, FirstMomentumIsTheGradientItself_DespiteDampening) {
  const auto sgd = made({.momentum = 0.9, .dampening = 0.5});
  Memory memory(*sgd);
  memory.states[0].assign(kFloats, 0);
  const auto sum = random_floats(9, -8, 8);
  memory.update(*sgd, {.number = 0, .scale = 1, .learning_rate = 0.1}, sum);
  EXPECT_TRUE(same_bits(memory.states[0], sum));
}

TEST(Sgd, WithoutMomentumHasTheBitsOfMomentumZero) {
  const auto with = made({.momentum = 0.5}), without = made({});
  EXPECT_TRUE(without->states().empty());
  Memory a(*with), b(*without);
  a.states[0].assign(kFloats, 0);
  const auto sum = random_floats(9, -8, 8);
  a.update(*with, {.number = 0, .scale = 0.5F, .learning_rate = 0.1}, sum);
  b.update(*without, {.number = 0, .scale = 0.5F, .learning_rate = 0.1}, sum);
  EXPECT_TRUE(same_bits(a.parameters, b.parameters));
}

TEST(Adam, BitsOfTheFormula) {
  for (const char* name : {"adam", "adamw"}) {
    const bool decoupled = std::string(name) == "adamw";
    const auto adam = made({.name = name, .weight_decay = 0.1});
    Memory memory(*adam), expected(*adam);
    const auto sum = random_floats(9, -8, 8);
    const auto correction1 = 1 - std::pow(0.9, 7), correction2 = 1 - std::pow(0.999, 7);
    for (std::size_t i = 0; i < kFloats; ++i) {
      float &p = expected.parameters[i], &m = expected.states[0][i], &v = expected.states[1][i];
      const float g = add(mul(0.125F, sum[i]), mul(decoupled ? 0 : 0.1F, p));
      const float shrunk = mul(decoupled ? static_cast<float>(1 - 0.01 * 0.1) : 1, p);
      m = add(mul(0.9F, m), mul(static_cast<float>(1 - 0.9), g));
      v = add(mul(0.999F, v), mul(mul(static_cast<float>(1 - 0.999), g), g));
      const float denominator = add(div(root(v), static_cast<float>(std::sqrt(correction2))), 1e-8F);
      p = add(shrunk, -mul(static_cast<float>(0.01 / correction1), div(m, denominator)));
    }
    memory.update(*adam, kStep, sum);
    EXPECT_TRUE(same_bits(memory.parameters, expected.parameters)) << name;
    EXPECT_EQ(memory.states, expected.states) << name;
  }
}

TEST(Adadelta, BitsOfTheFormula) {
  const auto adadelta = made({.name = "adadelta", .weight_decay = 5e-4});
  Memory memory(*adadelta), expected(*adadelta);
  const auto sum = random_floats(9, -8, 8);
  for (std::size_t i = 0; i < kFloats; ++i) {
    float &p = expected.parameters[i], &s = expected.states[0][i], &a = expected.states[1][i];
    const float g = add(mul(0.125F, sum[i]), mul(5e-4F, p));
    const auto rest = static_cast<float>(1 - 0.9);
    s = add(mul(0.9F, s), mul(mul(rest, g), g));
    const float d = mul(div(root(add(a, 1e-6F)), root(add(s, 1e-6F))), g);
    a = add(mul(0.9F, a), mul(mul(rest, d), d));
    p = add(p, -mul(0.01F, d));
  }
  memory.update(*adadelta, kStep, sum);
  EXPECT_TRUE(same_bits(memory.parameters, expected.parameters));
  EXPECT_EQ(memory.states, expected.states);
}

TEST(Rmsprop, BitsOfTheFormula) {
  for (const double momentum : {0.0, 0.9}) {
    const auto rmsprop = made({.name = "rmsprop", .weight_decay = 5e-4, .momentum = momentum});
    Memory memory(*rmsprop), expected(*rmsprop);
    const auto sum = random_floats(9, -8, 8);
    for (std::size_t i = 0; i < kFloats; ++i) {
      float &p = expected.parameters[i], &s = expected.states[0][i];
      const float g = add(mul(0.125F, sum[i]), mul(5e-4F, p));
      s = add(mul(0.99F, s), mul(mul(static_cast<float>(1 - 0.99), g), g));
      float d = div(g, add(root(s), 1e-8F));
      if (momentum != 0) d = expected.states[1][i] = add(mul(0.9F, expected.states[1][i]), d);
      p = add(p, -mul(0.01F, d));
    }
    memory.update(*rmsprop, kStep, sum);
    EXPECT_TRUE(same_bits(memory.parameters, expected.parameters)) << momentum;
    EXPECT_EQ(memory.states, expected.states) << momentum;
  }
}

TEST(Optimizers, PiecesOfAnySizeHaveTheBitsOfTheWhole) {
  const auto sum = random_floats(9, -8, 8);
  for (const Row& row : optimizers()) {
    const auto optimizer = made({.name = row.name, .weight_decay = 0.01, .momentum = 0.9});
    Memory whole(*optimizer);
    whole.update(*optimizer, kStep, sum);
    for (const std::size_t cut : {1UL, 16UL, 333UL, 999UL}) {
      Memory pieces(*optimizer);
      pieces.update(*optimizer, kStep, sum, cut, kFloats - cut);
      pieces.update(*optimizer, kStep, sum, 0, cut);
      EXPECT_TRUE(pieces == whole) << row.name << " at " << cut;
    }
  }
}

TEST(Optimizers, WrongOptionsAreNamed) {
  const auto refused = [](const Options& options) {
    const auto made = make_optimizer(options);
    return made ? "" : made.error().line();
  };
  EXPECT_EQ(refused({.name = "adan"}), "unknown optimizer 'adan': did you mean adam?");
  EXPECT_EQ(refused({.momentum = 1}),
            "--momentum 1 is out of range: use a number from 0 up to, not including, 1");
  EXPECT_NE(refused({.weight_decay = std::nan("")}), "");
  EXPECT_NE(refused({.name = "adam", .beta1 = 1}).find("--beta1 1 is out of range"), std::string::npos);
  EXPECT_NE(refused({.name = "adamw", .eps = -1}).find("--eps -1 is out of range"), std::string::npos);
  EXPECT_NE(refused({.nesterov = true}).find("--nesterov needs --momentum"), std::string::npos);
  for (const Row& row : optimizers()) EXPECT_EQ(refused({.name = row.name}), "");
}

}  // namespace
}  // namespace rekindle::optim
