#include "app/kept_program.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

class KeptProgram : public testing::Test {
 protected:
  std::vector<std::string> names() const { return names_in(layout_.root()).value(); }

  fs::path bin() const { return layout_.programs().path(); }
  void add_program(const std::string& name) const {
    std::ofstream(bin() / name) << name;
    fs::permissions(bin() / name, fs::perms::owner_all);
  }
  // The error of a start, in one line; empty: it uses the folder.
  std::string refusal() const {
    const auto kept = keep_program(layout_, {"/no/trainer", {}});
    return kept ? "" : kept.error().line();
  }
  void expect_lacks(const std::string& part) const {
    EXPECT_TRUE(refusal().starts_with(
        str(bin().string(), " is not complete: ", part, " is missing or cannot be executed: remove")))
        << refusal();
    EXPECT_EQ(go_on_as_kept(scratch_.path(), {"rekindle"}), 78);
  }

  TemporaryDirectory scratch_;
  const run::Layout layout_{scratch_.path()};
};

// No trainer program is held here, so it cannot be copied.
TEST_F(KeptProgram, AProgramThatCannotBeCopied_LeavesNothing) {
  EXPECT_FALSE(keep_program(layout_, {"/no/trainer", {}}));
  EXPECT_EQ(names(), std::vector<std::string>());
}

// A run directory may be a folder of the user's.
TEST_F(KeptProgram, AFolderWithNoneOfTheParts_IsNotOurs) {
  fs::create_directory(bin());
  add_program("tool");
  EXPECT_EQ(go_on_as_kept(scratch_.path(), {"rekindle"}), std::nullopt);
  EXPECT_EQ(refusal().find("not complete"), std::string::npos) << refusal();
}

TEST_F(KeptProgram, AFolderWithoutAllParts_IsNotUsedAndTheErrorNamesWhatIsMissing) {
  fs::create_directory(bin());
  std::ofstream(bin() / "rekindle") << "of a copy without modes";
  expect_lacks("rekindle");
  add_program("rekindle");
  expect_lacks("rekindle-control");
  add_program("rekindle-control");
  expect_lacks("rekindle-trainer");
  fs::create_directory(bin() / "script");  // trained by another program
  expect_lacks("lib");
  fs::create_directory(bin() / "lib");
  expect_lacks("python");
  fs::create_directory(bin() / "python");
  EXPECT_EQ(refusal(), "");
  fs::remove(bin() / "script");
  add_program("rekindle-trainer");
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(names(), std::vector<std::string>{"bin"});
}

TEST_F(KeptProgram, AnEmptyFolder_HasNoPrograms) {
  EXPECT_EQ(go_on_as_kept(scratch_.path(), {"rekindle"}), std::nullopt);
  fs::create_directory(bin());
  EXPECT_EQ(go_on_as_kept(scratch_.path(), {"rekindle"}), std::nullopt);
  EXPECT_EQ(refusal().find("not complete"), std::string::npos);
}

}  // namespace
}  // namespace rekindle::app
