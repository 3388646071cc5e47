#include "capi/compute_device.hpp"

#include <dlfcn.h>

#include "base/text.hpp"
#include "device/cuda_library.hpp"
#include "device/host_device.hpp"

namespace rekindle::capi {
namespace {

template <class Function>
Result<Function*> function_of_library(const char* name, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / device::kCudaLibrary;
  // Never closed: its code belongs to the device.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return fail(ExitCode::kConfig, str("this build has no CUDA: ", why == nullptr ? file.string() : why),
                "use --device cpu");
  }
  const auto function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr)
    return fail(ExitCode::kConfig, str(file.string(), " is not of this build"), "install rekindle again");
  return function;
}

Result<std::unique_ptr<device::Device>> open_gpu(int local_rank, const std::filesystem::path& folder) {
  REKINDLE_TRY(const auto open, function_of_library<device::OpenCudaDevice>(device::kOpenCudaDevice, folder));
  Result<std::unique_ptr<device::Device>> opened;
  open(local_rank, &opened);
  return opened;
}

}  // namespace

Result<ComputeDevice> open_device(const std::string& name, int local_rank,
                                  const std::filesystem::path& folder) {
  ComputeDevice opened;
  if (name == "cpu") return opened;
  if (name == "twin") {
    REKINDLE_TRY(opened.device, device::make_host_device_for(local_rank));
  } else if (name == "cuda") {
    REKINDLE_TRY(opened.device, open_gpu(local_rank, folder));
    opened.is_gpu = true;
  } else {
    return fail(ExitCode::kConfig, str("unknown device '", name, "'"), "use cpu or cuda");
  }
  REKINDLE_TRY(opened.stream, opened.device->make_stream());
  return opened;
}

Status check_driver(const std::filesystem::path& folder) {
  REKINDLE_TRY(const auto check,
               function_of_library<device::CheckCudaDriver>(device::kCheckCudaDriver, folder));
  Status checked;
  check(&checked);
  return checked;
}

}  // namespace rekindle::capi
