#include "device/cuda_errors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/result.hpp"

namespace rekindle::device {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string line_of(const CudaStart& start) {
  const Status status = check_start(start);
  if (status) return "";
  EXPECT_EQ(status.error().code, ExitCode::kConfig);
  return status.error().line();
}

TEST(CudaErrors, AGpu_NoError) { EXPECT_EQ(line_of({.text = "", .gpus = 1}), ""); }

TEST(CudaErrors, NoGpuOnlyWhereCudaSaysSo) {
  const std::string none = "no CUDA device: this machine has no GPU, or CUDA_VISIBLE_DEVICES hides it";
  EXPECT_THAT(line_of({.error = kCudaNoDevice, .text = ""}), HasSubstr(none));
  EXPECT_THAT(line_of({.text = ""}), HasSubstr(none));
  for (const int error : {3, 46, kCudaSystemNotReady, kCudaDriverMismatch, 999}) {
    const std::string line = line_of({.error = error, .text = "cudaErrorX: x", .driver = 13000});
    EXPECT_THAT(line, HasSubstr("CUDA cannot start: cudaErrorX: x: ")) << error;
    EXPECT_THAT(line, Not(HasSubstr("no GPU"))) << error;
  }
}

TEST(CudaErrors, TheHintFitsTheError) {
  EXPECT_THAT(line_of({.error = kCudaSystemNotReady, .text = "x"}), HasSubstr("nvidia-fabricmanager"));
  EXPECT_THAT(line_of({.error = kCudaDriverMismatch, .text = "x"}), HasSubstr("restart the machine"));
  EXPECT_THAT(line_of({.error = 999, .text = "x"}), HasSubstr("nvidia_uvm"));
}

TEST(CudaErrors, AnOldDriverOrNone_BothVersionsAreNamed) {
  EXPECT_EQ(
      line_of({.error = kCudaInsufficientDriver, .text = "x", .driver = 12040, .runtime = 13000}),
      "the NVIDIA driver is for CUDA 12.4, and this build needs 13.0: update the driver, or use --device "
      "cpu");
  EXPECT_EQ(line_of({.error = kCudaInsufficientDriver, .text = "x", .runtime = 13000}),
            "no CUDA device: this machine has no NVIDIA driver: use --device cpu");
}

TEST(CudaErrors, AFullGpu_FewerTrainers_AndALateErrorOfAKernel_Not) {
  const Error full = allocation_error("G", 8, kCudaMemoryAllocation, "out of memory");
  EXPECT_EQ(full.code, ExitCode::kConfig);
  EXPECT_THAT(full.line(), HasSubstr("G has no memory for 8 bytes (out of memory): use fewer trainers"));
  const Error late = allocation_error("G", 8, 214, "uncorrectable ECC error");
  EXPECT_EQ(late.code, ExitCode::kGaveUp);
  EXPECT_EQ(late.line(), "G: taking memory failed: uncorrectable ECC error: dmesg may say more (Xid)");
}

}  // namespace
}  // namespace rekindle::device
