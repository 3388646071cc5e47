#include "app/cpu.hpp"

#include <gtest/gtest.h>

namespace rekindle::app {
namespace {

TEST(Cpu, InstructionSetForBfloat16IsNamedAsOneDnnDoes) {
  EXPECT_EQ(bf16_isa_of(" fpu avx2 avx512f avx512bw avx512_vnni"), "");
  EXPECT_EQ(bf16_isa_of(" avx512f avx512_bf16"), "AVX512_CORE_BF16");
  EXPECT_EQ(bf16_isa_of(" avx512_fp16 avx512_bf16"), "AVX512_CORE_FP16");
  EXPECT_EQ(bf16_isa_of(" avx512_bf16 amx_bf16 avx512_fp16 amx_tile amx_int8"), "AVX512_CORE_AMX");
  // A virtual machine may hide the tiles.
  EXPECT_EQ(bf16_isa_of(" avx512_bf16 amx_bf16 avx512_fp16 amx_int8"), "AVX512_CORE_FP16");
}

TEST(Cpu, KernelsForAnOlderCpu_RunOnANewerOne) {
  EXPECT_TRUE(has_capability("avx512", "avx2"));
  EXPECT_TRUE(has_capability("avx2", "avx2"));
  EXPECT_FALSE(has_capability("avx2", "avx512"));
  EXPECT_FALSE(has_capability("default", "avx2"));
  EXPECT_TRUE(has_capability("default", ""));
}

// Outside of Slurm, too: a pod or a spot machine may come back on an older CPU.
TEST(Cpu, OlderThanTheRunsFirstOne_TheErrorSaysHowToAskForTheFirstKind) {
  EXPECT_TRUE(check_capability("node1", "avx512", "avx2"));
  EXPECT_TRUE(check_capability("node1", "avx2", ""));
  const Status refused = check_capability("node1", "avx2", "avx512");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::kConfig);
  EXPECT_EQ(refused.error().what, "the CPU of node1 has no avx512, which the run began with");
  for (const char* words : {"sbatch --constraint", "instance type", "nodeAffinity"})
    EXPECT_NE(refused.error().hint.find(words), std::string::npos) << words;
}

TEST(Cpu, NewerCpuHasTheInstructionSetOfAnOlderOne) {
  EXPECT_TRUE(has_bf16_isa("AVX512_CORE_AMX", "AVX512_CORE_BF16"));
  EXPECT_TRUE(has_bf16_isa("AVX512_CORE_BF16", "AVX512_CORE_BF16"));
  EXPECT_FALSE(has_bf16_isa("AVX512_CORE_BF16", "AVX512_CORE_AMX"));
  EXPECT_FALSE(has_bf16_isa("", "AVX512_CORE_BF16"));
  EXPECT_TRUE(has_bf16_isa("", ""));
}

}  // namespace
}  // namespace rekindle::app
