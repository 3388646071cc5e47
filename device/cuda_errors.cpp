#include "device/cuda_errors.hpp"

#include <utility>

#include "base/text.hpp"

namespace rekindle::device {
namespace {

// 13.0 as CUDA numbers it: 13000.
std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

const char* hint_for(int error) {
  if (error == kCudaSystemNotReady)
    return "a machine whose GPUs NVSwitches connect (HGX) needs the service nvidia-fabricmanager: start it";
  if (error == kCudaDriverMismatch)
    return "the driver was updated while its older kernel module was loaded: restart the machine";
  return "look at nvidia-smi and dmesg; the kernel module nvidia_uvm may not be loaded, or a GPU may be lost";
}

}  // namespace

Status check_start(const CudaStart& start) {
  if (start.error == kCudaInsufficientDriver && start.driver == 0)
    return fail(ExitCode::kConfig, "no CUDA device: this machine has no NVIDIA driver", "use --device cpu");
  if (start.error == kCudaInsufficientDriver)
    return fail(ExitCode::kConfig,
                str("the NVIDIA driver is for CUDA ", version_text(start.driver), ", and this build needs ",
                    version_text(start.runtime)),
                "update the driver, or use --device cpu");
  if (start.error == kCudaNoDevice || (start.error == kCudaSuccess && start.gpus == 0))
    return fail(ExitCode::kConfig,
                "no CUDA device: this machine has no GPU, or CUDA_VISIBLE_DEVICES hides it",
                "use --device cpu");
  if (start.error != kCudaSuccess)
    return fail(ExitCode::kConfig, str("CUDA cannot start: ", start.text), hint_for(start.error));
  return {};
}

bool build_does_not_fit(int error) {
  return error == kCudaInvalidDeviceFunction || error == kCudaInvalidKernelImage ||
         error == kCudaNoKernelImage || error == kCudaInvalidPtx || error == kCudaUnsupportedPtx;
}

Error operation_error(const std::string& gpu, const std::string& what, const std::string& text) {
  return {ExitCode::kGaveUp, str(gpu, ": ", what, " failed: ", text), "dmesg may say more (Xid)"};
}

Error allocation_error(const std::string& gpu, std::size_t bytes, int error, const std::string& text) {
  if (error != kCudaMemoryAllocation) return operation_error(gpu, "taking memory", text);
  return {ExitCode::kConfig, str(gpu, " has no memory for ", bytes, " bytes (", text, ")"),
          "use fewer trainers on this GPU; a new run: a smaller --batch-size, or more --micro-batches"};
}

}  // namespace rekindle::device
