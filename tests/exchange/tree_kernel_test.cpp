// The kernel of the tree has the bits of the code for the host.
#include <gtest/gtest.h>

#include <vector>

#include "../device/odd_floats.hpp"
#include "device/kernels.hpp"
#include "exchange/tree.hpp"
#include "exchange/tree_kernel.hpp"

namespace rekindle::exchange {
namespace {

using device::testing::draw;
using device::testing::Floats;
using device::testing::kCount;
using device::testing::same_bits;

TEST(TreeKernel, TreeSum_HasTheBitsOfTheExchange) {
  for (const int leaves : {1, 2, 8, 32}) {
    for (int ranks = 1; ranks <= leaves; ++ranks) {
      std::vector<LeafRange> subtrees;
      for (int rank = 0; rank < ranks; ++rank)
        for (const auto& tree : subtrees_of(leaves_of(leaves, ranks, rank))) subtrees.push_back(tree);
      std::vector<Floats> partials;
      std::vector<const float*> pointers;
      for (std::size_t i = 0; i < subtrees.size(); ++i) partials.push_back(draw(i));
      pointers.reserve(partials.size());
      for (const Floats& each : partials) pointers.push_back(each.data());
      Floats expected(kCount), sum(kCount);
      finish_tree(leaves, subtrees, pointers, expected.data(), kCount);
      device::run_on_host(tree_kernel(subtrees, pointers, sum.data(), kCount));
      EXPECT_TRUE(same_bits(sum, expected)) << leaves << " leaves, " << ranks << " ranks";
      // In place, over the first partial.
      device::run_on_host(tree_kernel(subtrees, pointers, partials[0].data(), kCount));
      EXPECT_TRUE(same_bits(partials[0], expected)) << leaves << " leaves, " << ranks << " ranks, in place";
    }
  }
}

TEST(TreeKernel, AddInto_HasTheBitsOfTheExchange) {
  Floats a = draw(1), b = a;
  const Floats from = draw(2);
  add_into(a.data(), from.data(), kCount);
  device::run_on_host(device::AddInto{b.data(), from.data(), kCount});
  EXPECT_TRUE(same_bits(a, b));
}

}  // namespace
}  // namespace rekindle::exchange
