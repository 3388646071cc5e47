#include "base/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rekindle {
namespace {

using testing::UnorderedElementsAre;

TEST(PackageFolder, ComesBeforeWhatPythonpathHad) {
  EXPECT_THAT(with_package_folder("/run/bin/python", {"A=1"}),
              UnorderedElementsAre("A=1", "PYTHONPATH=/run/bin/python", "REKINDLE_PACKAGE_FOLDER="));
  EXPECT_THAT(
      with_package_folder("/run/bin/python", {"PYTHONPATH=/own:/more", "REKINDLE_PACKAGE_FOLDER=/x:y"}),
      UnorderedElementsAre("PYTHONPATH=/run/bin/python:/own:/more", "REKINDLE_PACKAGE_FOLDER="));
}

// Python would look in "/12" and in "30/bin/python", which is relative to the current folder.
TEST(PackageFolder, WithAColon_IsNotInPythonpath) {
  EXPECT_THAT(with_package_folder("/12:30/bin/python", {"PYTHONPATH=/own"}),
              UnorderedElementsAre("PYTHONPATH=/own", "REKINDLE_PACKAGE_FOLDER=/12:30/bin/python"));
  EXPECT_THAT(with_package_folder("/12:30/bin/python", {}),
              UnorderedElementsAre("REKINDLE_PACKAGE_FOLDER=/12:30/bin/python"));
}

}  // namespace
}  // namespace rekindle
