// PIL and torchvision themselves, where a Python has them: image-folder has their pixels, and refuses the
// files that they refuse.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../needs.hpp"

namespace rekindle {
namespace {

TEST(ImageOracle, PixelsAreThoseOfPil_AndFilesThatPilRefusesAreRefused) {
  const char* named = std::getenv("REKINDLE_ORACLE_PYTHON");
  const std::string python =
      "PYTHONDONTWRITEBYTECODE=1 '" + std::string(named == nullptr ? "python3" : named) + "' ";
  if (std::system((python + "-c 'import numpy, PIL, torch, torchvision' 2> /dev/null").c_str()) != 0)
    REKINDLE_SKIP(
        Needs::kPython,
        "needs a python3 with pillow, numpy, torch and torchvision (REKINDLE_ORACLE_PYTHON names it)");
  EXPECT_EQ(
      std::system((python + "'" REKINDLE_SOURCE "/tests/oracle/check_images.py' '" REKINDLE_IMAGE_PIXELS "'")
                      .c_str()),
      0);
}

}  // namespace
}  // namespace rekindle
