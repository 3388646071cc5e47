// The page in a real Chromium, and its metrics in a real Prometheus.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "../needs.hpp"
#include "harness.hpp"
#include "python.hpp"

namespace rekindle::process_test {
namespace {

// Runs a script of this folder.
void expect_ok(const std::string& script, const Arguments& arguments) {
  Program program(Arguments{"/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", oracle_python(),
                            fs::path(REKINDLE_SOURCE) / "tests/board" / script} +
                  arguments);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  std::printf("%s", outcome.out.c_str());
}

class InChromium : public testing::Test {
 protected:
  void SetUp() override {
    Program program({"/usr/bin/env", oracle_python(), "-c", "import axe_playwright_python, playwright"});
    if (program.wait().exit_code != 0 || ::access("/usr/bin/chromium", X_OK) != 0)
      REKINDLE_SKIP(Needs::kSetup,
                    "needs chromium, and a python3 with playwright and axe-playwright-python "
                    "(REKINDLE_ORACLE_PYTHON names it)");
  }
};

TEST_F(InChromium, APageOfMadeUpRuns_PassesAllChecks) { expect_ok("browser/page_test.py", {}); }
TEST_F(InChromium, PlantedDefects_AreFound) { expect_ok("browser/page_test.py", {"--planted"}); }
TEST_F(InChromium, ARealRunWhoseProcessesDie_IsDrawnAsOnRecord) {
  expect_ok("browser/live_test.py", {rekindle()});
}

TEST(MadeUpRuns, HaveTheFieldsThatTheServerSendsForARealRun) { expect_ok("keys_test.py", {rekindle()}); }

TEST(InPrometheus, ARunOfTwoAttemptsAndADeath_HasAValueForEachQueryOfTheDashboard) {
  if (::access("/usr/bin/prometheus", X_OK) != 0 || ::access("/usr/bin/promtool", X_OK) != 0)
    REKINDLE_SKIP(Needs::kSetup, "needs prometheus (tools/packages-all.txt)");
  expect_ok("prometheus_test.py", {rekindle(), REKINDLE_SOURCE});
}

TEST(Hooks, AWebServer_GetsEachEvent) {
  if (::access("/usr/bin/curl", X_OK) != 0)
    REKINDLE_SKIP(Needs::kSetup, "needs curl (tools/packages-all.txt)");
  expect_ok("hooks_test.py", {"web-hook", rekindle(), REKINDLE_SOURCE});
}

TEST(Hooks, ATestLossThatStaysWhatItIs_EndsTheRun) {
  expect_ok("hooks_test.py", {"early-stop", rekindle(), REKINDLE_SOURCE});
}

TEST(Hooks, WandbOffline_HasEachStepOnceThoughTheRunWentBack) {
  Program program({"/usr/bin/env", oracle_python(), "-c", "import wandb"});
  if (program.wait().exit_code != 0)
    REKINDLE_SKIP(Needs::kPython, "needs a python3 with wandb (REKINDLE_ORACLE_PYTHON names it)");
  expect_ok("hooks_test.py", {"wandb", rekindle(), REKINDLE_SOURCE});
}

}  // namespace
}  // namespace rekindle::process_test
