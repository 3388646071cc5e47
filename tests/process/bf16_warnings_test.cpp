// --precision bf16 on a CPU without instructions for bfloat16, or without those of the first attempt: the run
// goes on, and one line warns.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "../needs.hpp"
#include "base/files.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

class Bf16Warnings : public ::testing::Test {
 protected:
  static bool cpu_has(const std::string& flag) {
    std::ifstream cpu("/proc/cpuinfo");
    const std::string flags(std::istreambuf_iterator<char>(cpu), {});
    return flags.find(flag) != std::string::npos;
  }
  fs::path dir() const { return scratch_ / "run"; }
  void expect_one_warning(int steps, const std::string& warning) const {
    const Outcome outcome = run(mnist_run(dir(), 1, steps) + Arguments{"--precision", "bf16"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(times_in(outcome.err, "rekindle: warning: " + warning + "\n"), 1U) << outcome.err;
  }
  Scratch scratch_;
};

TEST_F(Bf16Warnings, FirstCpuHasNoInstructions_OneLineSaysWhatIsFaster) {
  if (cpu_has("avx512_bf16")) REKINDLE_SKIP(Needs::kMachine, "this CPU has instructions for bfloat16");
  expect_one_warning(
      2, "the CPU of the first attempt has no instructions for bfloat16: --precision fp32 is faster");
}

// What the first attempt records on another CPU is planted, because one machine has one CPU.
TEST_F(Bf16Warnings, ThisCpuLacksTheInstructionsOfTheFirst_OneLineSaysThatTheBitsDiffer) {
  if (cpu_has("amx_fp16")) REKINDLE_SKIP(Needs::kMachine, "this CPU has all instructions for bfloat16");
  ASSERT_EQ(run(mnist_run(dir(), 1, 1) + Arguments{"--precision", "bf16"}).exit_code, 0);
  const run::Layout layout(dir());
  std::string config = read_text(layout.config()).value();
  const std::string key = "\nbf16_isa = \"";
  const std::size_t at = config.find(key);
  ASSERT_NE(at, std::string::npos) << config;
  const std::size_t value = at + key.size();
  config.replace(value, config.find('"', value) - value, "AVX512_CORE_AMX_FP16");
  ASSERT_TRUE(replace_file(layout.config(), config));
  expect_one_warning(
      2,
      "this CPU has no AVX512_CORE_AMX_FP16, which the CPU of the first attempt has: from here "
      "on the bits differ");
}

}  // namespace
}  // namespace rekindle::process_test
