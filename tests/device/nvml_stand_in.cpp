// A stand-in for libnvidia-ml.so.1, for machines without a GPU. It knows every GPU whose identity is written
// as NVML writes it.
//
// Environment, read at each call: NVML_STAND_IN_
//   KIND   how identities begin (GPU-)
//   FAILS  the names of functions that return an error, such as "init memory"
//   HANGS  the same of functions that never return
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6;

std::string setting(const char* name) {
  const char* const value = std::getenv((std::string("NVML_STAND_IN_") + name).c_str());
  return value == nullptr ? "" : value;
}

int called(const std::string& function) {
  while (setting("HANGS").find(function) != std::string::npos) ::pause();
  return setting("FAILS").find(function) != std::string::npos ? kNotSupported : kSuccess;
}

}  // namespace

extern "C" {

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};

int nvmlInit_v2() { return called("init"); }
int nvmlShutdown() { return called("shutdown"); }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const std::string kind = setting("KIND").empty() ? "GPU-" : setting("KIND"), text = uuid;
  if (!text.starts_with(kind)) return kNotFound;
  const std::string digits = text.substr(kind.size());
  const bool hex = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hex && digits.size() == 32) return kNotFound;  // without the dashes
  static int the_device = 0;
  *device = &the_device;
  return called("handle");
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80'000'000'000, 68'000'000'000, 12'000'000'000};
  return called("memory");
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* rates) {
  *rates = {97, 40};
  return called("utilization");
}
}
