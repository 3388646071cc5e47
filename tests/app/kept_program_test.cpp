#include "app/kept_program.hpp"

#include <gtest/gtest.h>

#include "../temporary_directory.hpp"
#include "base/files.hpp"

namespace rekindle::app {
namespace {

class KeptProgram : public testing::Test {
 protected:
  std::vector<std::string> names() const { return names_in(layout_.root()).value(); }

  TemporaryDirectory scratch_;
  const run::Layout layout_{scratch_.path()};
};

// No trainer program is held here, so it cannot be copied.
TEST_F(KeptProgram, AProgramThatCannotBeCopied_LeavesNothing) {
  EXPECT_FALSE(keep_program(layout_, {"/no/trainer", {}}));
  EXPECT_EQ(names(), std::vector<std::string>());
}

}  // namespace
}  // namespace rekindle::app
