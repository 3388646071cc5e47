// Programs that are run to their end.
#include "base/command.hpp"

#include <gtest/gtest.h>

namespace rekindle {
namespace {

Result<CommandOutput> writes(const std::string& what) {
  return run_command({"sh", "-c", what}, std::chrono::minutes(1));
}

// A model with 18,000 parameter tensors has an answer of more than 8 MiB.
TEST(Command, ALongAnswer_IsComplete) {
  const auto output = writes("head -c 20000000 /dev/zero");
  ASSERT_TRUE(output) << output.error().line();
  EXPECT_EQ(output->out.size(), 20000000U);
}

TEST(Command, TooLongAnAnswer_IsAnErrorAndNotAPartOfIt) {
  const auto output = writes("head -c 70000000 /dev/zero");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().line(), "sh has written more than 67.1 MB to its standard output");
}

TEST(Command, ManyMessages_AreCut) {
  const auto output = writes("head -c 70000000 /dev/zero >&2; echo done");
  ASSERT_TRUE(output) << output.error().line();
  EXPECT_EQ(output->out, "done\n");
  EXPECT_EQ(output->err.size(), std::size_t{64} << 20);
}

}  // namespace
}  // namespace rekindle
