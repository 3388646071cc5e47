#include "optim/groups.hpp"

#include <gtest/gtest.h>

namespace rekindle::optim {
namespace {

const std::vector<std::string> kNames = {"conv.weight", "conv.bias", "norm.weight", "norm.bias", "fc.weight"};

std::string refusal(const GroupOptions& options) {
  const auto groups = make_groups(options, kNames);
  if (groups) return "";
  EXPECT_EQ(groups.error().code, ExitCode::kConfig);
  return groups.error().what;
}

TEST(Groups, WithoutPatternsAllParametersAreAlike) {
  const auto groups = make_groups({}, kNames);
  ASSERT_TRUE(groups);
  ASSERT_EQ(groups->size(), kNames.size());
  for (const Group& group : *groups) {
    EXPECT_TRUE(group.decays);
    EXPECT_EQ(group.lr_scale, 1);
  }
}

TEST(Groups, PatternsChooseByName) {
  const auto groups = make_groups({"conv.bias,norm.*", "*.weight=0.1"}, kNames);
  ASSERT_TRUE(groups);
  const bool decays[] = {true, false, false, false, true};
  const double scales[] = {0.1, 1, 0.1, 1, 0.1};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_EQ((*groups)[i].decays, decays[i]) << kNames[i];
    EXPECT_EQ((*groups)[i].lr_scale, scales[i]) << kNames[i];
  }
}

TEST(Groups, APatternThatMatchesNothingOrTwiceIsRefused) {
  EXPECT_EQ(refusal({.no_decay = "*.bais"}), "--no-decay: *.bais matches no parameter of the model");
  EXPECT_EQ(refusal({.no_decay = "*.bias,norm.*"}),
            "--no-decay: *.bias and norm.* both match parameter norm.bias");
  EXPECT_EQ(refusal({.lr_scale = "head.*=2"}), "--lr-scale: head.* matches no parameter of the model");
  EXPECT_EQ(refusal({.lr_scale = "fc.*=2,*.weight=3"}),
            "--lr-scale: fc.* and *.weight both match parameter fc.weight");
}

TEST(Groups, AFactorThatIsNoNumberIsRefused) {
  for (const char* entry : {"fc.*", "fc.*=", "fc.*=ten", "fc.*=-1", "fc.*=nan", "fc.*=inf", "fc.*=1x"})
    EXPECT_EQ(refusal({.lr_scale = entry}),
              std::string("--lr-scale ") + entry + " has no factor of at least 0");
}

}  // namespace
}  // namespace rekindle::optim
