#include "protocol/trainer_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Job job_with(const Environment& environment) {
  Job job;
  job.cpu_capability = "avx512";
  job.environment = environment;
  return job;
}

TEST(TrainerEnvironment, RecordsWhatNumericLibrariesReadAndNothingElse) {
  const Environment environment = {
      "PATH=/bin",       "OMP_SCHEDULE=static",        "MKL_ENABLE_INSTRUCTIONS=SSE4_2",
      "KMP_BLOCKTIME=1", "DNNL_MAX_CPU_ISA=AVX2",      "ONEDNN_VERBOSE=0",
      "HOME=/root",      "GLIBC_TUNABLES=glibc.x=1:y", "MKLROOT=/opt"};
  EXPECT_THAT(numeric_variables(environment, job_with({})),
              ElementsAre("DNNL_MAX_CPU_ISA=AVX2", "GLIBC_TUNABLES=glibc.x=1:y", "KMP_BLOCKTIME=1",
                          "MKL_ENABLE_INSTRUCTIONS=SSE4_2", "OMP_SCHEDULE=static"));
}

// Modules of many sites bind threads to cores. All trainers of a node would be bound to the same ones.
TEST(TrainerEnvironment, PlacesOfThreads_AreNotRecordedAndNotPassedOn) {
  const Environment places = {"GOMP_CPU_AFFINITY=0-3", "KMP_AFFINITY=compact", "OMP_PLACES=cores",
                              "OMP_PROC_BIND=true"};
  EXPECT_THAT(numeric_variables(places, job_with({})), IsEmpty());
  // An older attempt has recorded them.
  const auto made = trainer_environment(places, job_with({"OMP_PLACES=cores", "OMP_PROC_BIND=true"}));
  for (const char* name : {"GOMP_CPU_AFFINITY=", "OMP_PLACES="})
    EXPECT_THAT(made.entries, Not(Contains(StartsWith(name))));
  EXPECT_THAT(made.entries, Contains("OMP_PROC_BIND=FALSE"));
  EXPECT_THAT(made.entries, Not(Contains("OMP_PROC_BIND=true")));
  EXPECT_THAT(made.entries, Contains("KMP_AFFINITY=disabled"));
}

TEST(TrainerEnvironment, WhatTheJobFixesIsNotRecorded) {
  const Environment environment = {"OMP_NUM_THREADS=64", "MKL_CBWR=COMPATIBLE",
                                   "ATEN_CPU_CAPABILITY=default"};
  EXPECT_THAT(numeric_variables(environment, job_with({})), IsEmpty());
  Job old_cpu;
  old_cpu.cpu_capability = "default";
  EXPECT_THAT(numeric_variables(environment, old_cpu),
              ElementsAre("ATEN_CPU_CAPABILITY=default", "MKL_CBWR=COMPATIBLE"));
}

TEST(TrainerEnvironment, ValueThatRunTomlCannotHoldIsNotRecorded) {
  EXPECT_THAT(numeric_variables({"KMP_LIBRARY=\xff", "OMP_SCHEDULE=a\nb", "MKL_NUM_STRIPES=1"}, job_with({})),
              ElementsAre("MKL_NUM_STRIPES=1"));
}

TEST(TrainerEnvironment, RecordedValuesWinAndOthersAreRemovedWithOneLine) {
  const auto made =
      trainer_environment({"PATH=/bin", "MKL_ENABLE_INSTRUCTIONS=SSE4_2", "OMP_SCHEDULE=guided"},
                          job_with({"OMP_SCHEDULE=static", "KMP_BLOCKTIME=1"}));
  EXPECT_THAT(made.entries, Contains("PATH=/bin"));
  EXPECT_THAT(made.entries, Contains("OMP_SCHEDULE=static"));
  EXPECT_THAT(made.entries, Contains("KMP_BLOCKTIME=1"));
  EXPECT_THAT(made.entries, Not(Contains("OMP_SCHEDULE=guided")));
  EXPECT_THAT(made.entries, Not(Contains(StartsWith("MKL_ENABLE_INSTRUCTIONS="))));
  ASSERT_THAT(made.warnings, SizeIs(1));
  EXPECT_THAT(made.warnings[0], HasSubstr("MKL_ENABLE_INSTRUCTIONS=SSE4_2, OMP_SCHEDULE=guided"));
  EXPECT_THAT(made.warnings[0], HasSubstr("the first attempt of this run did not have these values"));
}

TEST(TrainerEnvironment, VariableThatMakesFiles_IsNotPassedOnAndOneLineReportsIt) {
  const auto made = trainer_environment({"MKL_VERBOSE=1", "HOME=/root"}, job_with({}));
  EXPECT_THAT(made.entries, Not(Contains("MKL_VERBOSE=1")));
  EXPECT_THAT(made.entries, Contains("HOME=/root"));
  ASSERT_THAT(made.warnings, SizeIs(1));
  EXPECT_THAT(made.warnings[0], HasSubstr("trainers do not get MKL_VERBOSE=1: a run passes on only"));
}

TEST(TrainerEnvironment, SameValuesAsTheFirstAttempts_NoWarning) {
  const Environment inherited = {"PATH=/bin", "OMP_SCHEDULE=static", "OMP_NUM_THREADS=9"};
  EXPECT_THAT(trainer_environment(inherited, job_with({"OMP_SCHEDULE=static"})).warnings, IsEmpty());
}

// A record that a user has edited must not override the values fixed by the job.
TEST(TrainerEnvironment, WhatTheJobFixesWinsOverEverything) {
  Job job = job_with({"OMP_NUM_THREADS=7", "LD_PRELOAD=/x.so"});
  job.threads = 2;
  const auto made = trainer_environment({"OMP_NUM_THREADS=64", "HDF5_USE_FILE_LOCKING=TRUE"}, job);
  EXPECT_THAT(made.entries, Contains("OMP_NUM_THREADS=2").Times(1));
  EXPECT_THAT(made.entries, Contains(StartsWith("OMP_NUM_THREADS=")).Times(1));
  EXPECT_THAT(made.entries, Contains(StartsWith("HDF5_USE_FILE_LOCKING=")).Times(1));
  EXPECT_THAT(made.entries, Not(Contains(StartsWith("LD_PRELOAD="))));
}

// A run directory that another user has written.
TEST(TrainerEnvironment, ARecordThatNoAttemptHasMade_ReachesNoTrainer) {
  const auto made = trainer_environment(
      {},
      job_with({"ONEDNN_JIT_DUMP=1", "OMP_TOOL_LIBRARIES=/x.so", "OMP_DISPLAY_ENV=TRUE",
                "MKL_CBWR_X=a\n\x1b[32m", "OMP_AFFINITY_FORMAT=%n", "OMP_SCHEDULE=static", "MKL_VERBOSE=1",
                "MKL_VERBOSE_OUTPUT_FILE=/x", "ONEDNN_JIT_PROFILE=14", "KMP_SETTINGS=1"}));
  EXPECT_THAT(made.entries, Contains("OMP_SCHEDULE=static"));
  for (const char* name : {"ONEDNN_JIT_DUMP", "OMP_TOOL", "OMP_DISPLAY", "MKL_CBWR_X", "OMP_AFFINITY_FORMAT",
                           "MKL_VERBOSE", "ONEDNN_JIT_PROFILE", "KMP_SETTINGS"})
    EXPECT_THAT(made.entries, Not(Contains(StartsWith(name))));
  EXPECT_THAT(numeric_variables({"ONEDNN_JIT_DUMP=1", "OMP_SCHEDULE=static"}, job_with({})),
              ElementsAre("OMP_SCHEDULE=static"));
}

TEST(TrainerEnvironment, HugePagesStayBesideTheRecordedTunables) {
  const auto tunables = [](const Environment& inherited, const Environment& recorded) {
    for (const std::string& entry : trainer_environment(inherited, job_with(recorded)).entries)
      if (entry.starts_with("GLIBC_TUNABLES=")) return entry;
    return std::string();
  };
  EXPECT_EQ(tunables({}, {}), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  EXPECT_EQ(tunables({"GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2"}, {}), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  EXPECT_EQ(tunables({}, {"GLIBC_TUNABLES=glibc.malloc.hugetlb=0:glibc.cpu.hwcaps=-AVX2"}),
            "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2:glibc.malloc.hugetlb=1");
}

// As model::tune_allocator() sets them in a C++ trainer.
TEST(TrainerEnvironment, TrainerOfAScript_HasTheHeapOfATrainerInItsTunables) {
  Job job = job_with({"GLIBC_TUNABLES=glibc.malloc.hugetlb=0:glibc.cpu.hwcaps=-AVX2"});
  const char* of_heap[] = {"glibc.malloc.mmap_max=0:", "glibc.malloc.trim_threshold=0x7fffffffffff:",
                           "glibc.malloc.top_pad=0x4000000:", "glibc.malloc.arena_max=1:"};
  for (const char* each : of_heap)
    EXPECT_THAT(trainer_environment({}, job).entries, Not(Contains(HasSubstr(each)))) << "no script";
  job.task.script = "/home/train.py";
  const Environment made = trainer_environment({}, job).entries;
  EXPECT_THAT(made, Contains(StartsWith("GLIBC_TUNABLES=")).Times(1));
  for (const char* each : of_heap)
    EXPECT_THAT(made, Contains(AllOf(StartsWith("GLIBC_TUNABLES="), HasSubstr(each))));
  EXPECT_THAT(made, Contains(EndsWith(":glibc.cpu.hwcaps=-AVX2:glibc.malloc.hugetlb=1")));
  EXPECT_THAT(made, Contains("PYTHONHASHSEED=0"));
}

// AVX512_CORE has no instructions for bfloat16.
TEST(TrainerEnvironment, InstructionsOfOneDnn_OfTheCapabilityOrThoseForBfloat16) {
  const auto isa = [](const std::string& capability, const std::string& bf16_isa) {
    Job job;
    job.cpu_capability = capability;
    job.bf16_isa = bf16_isa;
    std::string found;
    for (const std::string& entry : trainer_environment({"ONEDNN_MAX_CPU_ISA=SSE41"}, job).entries)
      if (entry.starts_with("ONEDNN_MAX_CPU_ISA=")) found += entry;
    return found;
  };
  EXPECT_EQ(isa("avx512", ""), "ONEDNN_MAX_CPU_ISA=AVX512_CORE");
  EXPECT_EQ(isa("avx512", "AVX512_CORE_AMX"), "ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX");
  EXPECT_EQ(isa("avx2", ""), "ONEDNN_MAX_CPU_ISA=AVX2");
  EXPECT_EQ(isa("default", ""), "");
}

TEST(TrainerEnvironment, SettingsOfNcclOnGpus_AUsersOwnStay) {
  Job job = job_with({});
  EXPECT_THAT(trainer_environment({}, job, "ib0").entries, Not(Contains(StartsWith("NCCL_")))) << "on CPUs";
  job.device = "cuda";
  const Environment made = trainer_environment({"NCCL_NVLS_ENABLE=1", "NCCL_DEBUG=INFO"}, job, "ib0").entries;
  for (const char* entry :
       {"NCCL_SOCKET_IFNAME==ib0", "NCCL_RAS_ENABLE=0", "NCCL_NVLS_ENABLE=1", "NCCL_DEBUG=INFO"})
    EXPECT_THAT(made, Contains(entry));
  EXPECT_THAT(made, Not(Contains("NCCL_NVLS_ENABLE=0")));
}

// Without --interface, no other machine takes part.
TEST(TrainerEnvironment, NcclWithoutAnInterface_ListensOnLoopback) {
  Job job = job_with({});
  job.device = "cuda";
  EXPECT_THAT(trainer_environment({}, job).entries, Contains("NCCL_SOCKET_IFNAME==lo"));
  EXPECT_THAT(trainer_environment({"NCCL_SOCKET_IFNAME=eth1"}, job).entries,
              AllOf(Contains("NCCL_SOCKET_IFNAME=eth1"), Not(Contains("NCCL_SOCKET_IFNAME==lo"))));
}

// A site's values would take the place of --precision, and of the workspaces that make cuBLAS deterministic.
TEST(TrainerEnvironment, VariablesThatChangeTheBitsOfGpus_AreThoseOfTheRun) {
  const Environment site = {"NVIDIA_TF32_OVERRIDE=1", "CUBLAS_WORKSPACE_CONFIG=:0:0"};
  Job job = job_with({});
  const Environment full = trainer_environment(site, job).entries;
  EXPECT_THAT(full, Contains("NVIDIA_TF32_OVERRIDE=0"));
  EXPECT_THAT(full, Contains("CUBLAS_WORKSPACE_CONFIG=:4096:8"));
  EXPECT_THAT(full, Contains(StartsWith("CUBLAS_WORKSPACE_CONFIG=")).Times(1));
  EXPECT_THAT(full, Contains(StartsWith("NVIDIA_TF32_OVERRIDE=")).Times(1));
  job.precision = "tf32";
  EXPECT_THAT(trainer_environment(site, job).entries, Not(Contains(StartsWith("NVIDIA_TF32_OVERRIDE="))));
}

TEST(VisibleGpu, EachTrainerGetsOnePartOfAGpu) {
  const std::string parts = "MIG-a,MIG-b,MIG-c";
  EXPECT_EQ(visible_gpu(parts, 0), "MIG-a");
  EXPECT_EQ(visible_gpu(parts, 2), "MIG-c");
  EXPECT_EQ(visible_gpu(parts, 4), "MIG-b");
  EXPECT_EQ(visible_gpu("MIG-a", 3), "MIG-a");
}

TEST(VisibleGpu, ACompleteGpuIsChosenByTheTrainerItself) {
  for (const std::string all : {"", "0,1,2", "GPU-x,GPU-y", "0,MIG-a"}) EXPECT_EQ(visible_gpu(all, 1), all);
}

TEST(TrainerEnvironment, PreloadedLibrary_OneLineOfWarningAndItStays) {
  const auto made = trainer_environment({"LD_PRELOAD=/opt/fast.so"}, job_with({}));
  EXPECT_THAT(made.entries, Contains("LD_PRELOAD=/opt/fast.so"));
  ASSERT_THAT(made.warnings, SizeIs(1));
  EXPECT_THAT(made.warnings[0], HasSubstr("LD_PRELOAD=/opt/fast.so"));
}

}  // namespace
}  // namespace rekindle::protocol
