// The bits of updates, as numbers: the same on every architecture. A change of one is a change of the results
// of all runs.
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "optim/average.hpp"
#include "optim/clip.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "random_floats.hpp"

namespace rekindle::optim {
namespace {

std::string hash_of(const std::vector<float>& floats) {
  return hex64(hash64(std::as_bytes(std::span(floats))));
}

void expect_hash(const std::map<std::string, std::string>& expected, const std::string& name,
                 const std::vector<float>& floats) {
  const auto known = expected.find(name);
  if (known == expected.end()) {
    ADD_FAILURE() << "add " << name << ": its hash is " << hash_of(floats);
  } else {
    EXPECT_EQ(hash_of(floats), known->second) << name;
  }
}

TEST(FixedBits, OfEveryOptimizer) {
  const std::map<std::string, std::string> expected = {{"sgd", "f885dbb94a94105a"},
                                                       {"adam", "ac57b05bc21f1257"},
                                                       {"adamw", "6cdf62a2c6f3b58f"},
                                                       {"adadelta", "cf54e6e63558d402"},
                                                       {"rmsprop", "a5b6d50811681cc1"}};
  for (const std::string& name : names_of_optimizers()) {
    const auto optimizer = make_optimizer(
        {.name = name, .weight_decay = 0.01, .momentum = name == "sgd" || name == "rmsprop" ? 0.9 : 0});
    ASSERT_TRUE(optimizer) << optimizer.error().line();
    std::vector<float> parameters = random_floats(1, -1, 1);
    std::vector<std::vector<float>> states((*optimizer)->states().size(), std::vector<float>(kFloats));
    const std::vector<std::span<float>> pieces(states.begin(), states.end());
    for (std::uint64_t step = 0; step < 10; ++step)
      (*optimizer)
          ->update({.number = step, .scale = 0.125F, .learning_rate = 0.01}, parameters, pieces,
                   random_floats(2 + step, -1, 1));
    expect_hash(expected, name, parameters);
  }
}

TEST(FixedBits, OfClippingAndOfTheAverage) {
  SquaredNorm norm;
  norm.add(random_floats(1, -1, 1));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(norm.value()), 4644514205787433544U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(clip_factor(norm.value(), 1)), 4569132419799752823U);
  std::vector<float> mean = random_floats(2, -1, 1);
  average(0.999, mean, random_floats(3, -1, 1));
  EXPECT_EQ(hash_of(mean), "fbe89cf6f39fcf6e");
}

TEST(FixedBits, OfEverySchedule) {
  const std::map<std::string, std::string> expected = {
      {"step", "151cc23dab9313d7"},   {"multi-step", "816387aac2205f36"}, {"exponential", "df7c43884283a7f6"},
      {"cosine", "2f94ae96b1b7c10d"}, {"linear", "d011b450f7ce585f"},     {"constant", "c5da347c98a4d816"}};
  for (const std::string& name : names_of_schedules()) {
    const Schedule schedule{
        .name = name, .lr = 0.1, .warmup_steps = 7, .length = 1000, .step_epochs = 3, .milestones = {3, 6}};
    std::vector<float> rates;
    for (std::uint64_t step = 0; step < 1000; ++step)
      rates.push_back(static_cast<float>(rate_at(schedule, step, step / 100)));
    expect_hash(expected, name, rates);
  }
}

}  // namespace
}  // namespace rekindle::optim
