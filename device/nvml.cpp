#include "device/nvml.hpp"

#include <dlfcn.h>

#include "base/text.hpp"

namespace rekindle::device {
namespace {

// The types and values of nvml.h, which have not changed since version 2 of nvmlInit.
using NvmlCode = int;
using NvmlHandle = struct NvmlDevice*;
constexpr NvmlCode kSuccess = 0;

struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent of the time
};

struct NvmlApi {
  NvmlCode (*init)() = nullptr;
  NvmlCode (*shutdown)() = nullptr;
  NvmlCode (*handle_by_uuid)(const char*, NvmlHandle*) = nullptr;
  NvmlCode (*memory)(NvmlHandle, NvmlMemory*) = nullptr;
  NvmlCode (*utilization)(NvmlHandle, NvmlUtilization*) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// 32 hex digits, as NVML writes them: 8-4-4-4-12.
std::string with_dashes(std::string digits) {
  if (digits.size() != 32) return digits;
  for (const std::size_t at : {20, 16, 12, 8}) digits.insert(at, "-");
  return digits;
}

class Opened final : public NvmlGpu {
 public:
  explicit Opened(const NvmlApi& api) : api_(api) {}
  ~Opened() override { api_.shutdown(); }

  bool find_gpu(const std::string& identity) {
    // A part of a GPU (MIG) is a device with an identity of its own.
    for (const char* const kind : {"GPU-", "MIG-"})
      if (api_.handle_by_uuid(str(kind, with_dashes(identity)).c_str(), &handle_) == kSuccess) return true;
    return false;
  }
  GpuUse use() override {
    GpuUse use;
    if (NvmlMemory memory; api_.memory(handle_, &memory) == kSuccess) {
      use.used_bytes = memory.used;
      use.total_bytes = memory.total;
    }
    if (NvmlUtilization rates; api_.utilization(handle_, &rates) == kSuccess)
      use.busy_percent = static_cast<int>(rates.gpu);
    return use;
  }

 private:
  const NvmlApi api_;
  NvmlHandle handle_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<NvmlGpu>> NvmlGpu::open(const std::string& library, const std::string& identity) {
  // Never unloaded: a call may still hang in it.
  void* const found = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) return fail(str(library, " is not there"));
  NvmlApi api;
  const bool complete = find(found, "nvmlInit_v2", api.init) && find(found, "nvmlShutdown", api.shutdown) &&
                        find(found, "nvmlDeviceGetHandleByUUID", api.handle_by_uuid) &&
                        find(found, "nvmlDeviceGetMemoryInfo", api.memory) &&
                        find(found, "nvmlDeviceGetUtilizationRates", api.utilization);
  if (!complete) return fail(str(library, " is no NVML"));
  if (api.init() != kSuccess) return fail(str(library, " finds no driver"));
  auto opened = std::make_unique<Opened>(api);
  if (!opened->find_gpu(identity)) return fail(str(library, " does not know the GPU ", identity));
  return opened;
}

}  // namespace rekindle::device
