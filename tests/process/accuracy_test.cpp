// Real handwriting is learnt: tests/oracle/accuracy.sh. REKINDLE_ORACLE_PYTHON names a Python with
// scikit-learn, which brings the digits; otherwise it is the python3 on PATH.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

class Accuracy : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, Accuracy, testing::Values("mnist-cnn", "resnet18"),
                         [](const auto& info) { return info.index == 0 ? "MnistCnn" : "Resnet18"; });

TEST_P(Accuracy, RealHandwriting_LearntForThreeSeeds) {
  const char* const given = std::getenv("REKINDLE_ORACLE_PYTHON");
  const std::string python = given != nullptr ? given : "python3";
  if (Program({"/usr/bin/env", python, "-c", "import sklearn"}).wait().exit_code != 0)
    REKINDLE_SKIP(Needs::kPython, "needs a python3 with scikit-learn (REKINDLE_ORACLE_PYTHON)");
  // Three runs of 15 or 20 epochs.
  const fs::path script = fs::path(REKINDLE_SOURCE) / "tests/oracle/accuracy.sh";
  const auto done = run_command({"env", "REKINDLE_ORACLE_PYTHON=" + python, script, rekindle(), GetParam()},
                                std::chrono::minutes(28));
  ASSERT_TRUE(done) << done.error().line();
  EXPECT_TRUE(done->ok()) << done->out << done->err;
  EXPECT_EQ(times_in(done->out, ": ok"), 3U) << done->out;
}

}  // namespace
}  // namespace rekindle::process_test
