#include "model/device.hpp"

#include <cstdlib>

#include "base/text.hpp"
#include "model/open_device.hpp"
#ifdef REKINDLE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace rekindle::model {
namespace {

#ifdef REKINDLE_CUDA

// -1: none, or no driver
int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : -1;
}

void choose_cuda_algorithms() {
  // cuBLAS reads it when its first handle is made, after this; its default workspaces may change bits.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  auto& context = at::globalContext();
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowTF32CuBLAS(false);
}

#endif

// An operator that has no deterministic version throws, and names itself.
void choose_deterministic_algorithms() {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // nothing reads memory that it has not written
}

}  // namespace

Result<at::Device> open_device(const std::string& name) {
  choose_deterministic_algorithms();
  if (name == "cpu") return at::Device(at::kCPU);
  const bool numbered = name.starts_with("cuda:") && name.size() > 5 && name.size() < 9 &&
                        name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (name != "cuda" && !numbered)
    return fail(ExitCode::kConfig, str("unknown device '", name, "'"), "use cpu, cuda or cuda:N");
#ifdef REKINDLE_CUDA
  const int index = numbered ? std::stoi(name.substr(5)) : 0;
  const int count = gpu_count();
  if (count <= 0)
    return fail(ExitCode::kConfig, "no CUDA device: this machine has no GPU or no driver",
                "use --device cpu");
  if (index >= count)
    return fail(ExitCode::kConfig, str("no CUDA device: there is no ", name),
                str("this machine has ", count));
  choose_cuda_algorithms();
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
#else
  return fail(ExitCode::kConfig, "this build has no CUDA", "use --device cpu or the cuda preset");
#endif
}

#ifdef REKINDLE_CUDA

void synchronize(at::Device device) {
  if (!device.is_cuda()) return;
  TORCH_CHECK(cudaSetDevice(device.index()) == cudaSuccess, "cudaSetDevice failed");
  const cudaError_t error = cudaDeviceSynchronize();
  TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

std::string describe_device(at::Device device) {
  cudaDeviceProp properties{};
  if (!device.is_cuda() || cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess)
    return device.str();
  return properties.name;
}

Status pin_host_memory(std::span<float> memory) {
  if (gpu_count() <= 0) return {};
  const cudaError_t error = cudaHostRegister(memory.data(), memory.size_bytes(), cudaHostRegisterPortable);
  if (error == cudaSuccess) return {};
  if (error == cudaErrorHostMemoryAlreadyRegistered) {
    static_cast<void>(cudaGetLastError());  // or the next check of anything would find it
    return {};
  }
  return fail(str("cannot pin ", memory.size_bytes(), " bytes of host memory: ", cudaGetErrorString(error)),
              "raise the limit on locked memory (ulimit -l)");
}

void unpin_host_memory(std::span<float> memory) {
  // A failure means that it was not pinned, which is what the caller wants.
  if (gpu_count() > 0) static_cast<void>(cudaHostUnregister(memory.data()));
}

#else

void synchronize(at::Device) {}
std::string describe_device(at::Device device) { return device.str(); }
Status pin_host_memory(std::span<float>) { return {}; }
void unpin_host_memory(std::span<float>) {}

#endif

}  // namespace rekindle::model
