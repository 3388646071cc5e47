#include "model/compute_device.hpp"

#include <c10/core/AutogradState.h>

#include <cstdlib>
#include <utility>

#include "base/lines.hpp"
#include "base/text.hpp"
#include "device/host_device.hpp"
#include "device/local_rank.hpp"
#ifdef REKINDLE_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>

#include "device/cuda_device.hpp"
#endif

namespace rekindle::model {
namespace {

#ifdef REKINDLE_CUDA
std::atomic<bool> memory_was_short{false};

// Errors: LibTorch's allocator does not say when the GPU is full, so other bits would not be noticed.
Status watch_memory() {
  static Status watched = []() -> Status {
    try {
      c10::cuda::CUDACachingAllocator::init(c10::cuda::device_count());
      c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
          [](std::int64_t, std::size_t, std::size_t, std::size_t) { memory_was_short = true; });
      return {};
    } catch (const c10::Error& error) {
      return fail(
          ExitCode::kConfig,
          str("LibTorch's allocator of GPU memory cannot be watched: ",
              first_line_of(error.what_without_backtrace())),
          "unset PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, or leave backend:cudaMallocAsync out of "
          "them");
    }
  }();
  return watched;
}
#endif

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 4 && text.find_first_not_of("0123456789") == std::string::npos;
}

Result<std::unique_ptr<device::Device>> open(const std::string& name) {
  if (name == "twin") return device::make_host_device_for(device::local_rank());
  const bool numbered = name.starts_with("cuda:") && is_number(name.substr(5));
  if (name != "cuda" && !numbered)
    return fail(ExitCode::kConfig, str("unknown device '", name, "'"), "use cpu, cuda or cuda:N");
#ifdef REKINDLE_CUDA
  if (numbered) return device::open_cuda_device(std::stoi(name.substr(5)));
  return device::open_cuda_device_for(device::local_rank());
#else
  return fail(ExitCode::kConfig, "this build has no CUDA", "use --device cpu or the cuda preset");
#endif
}

}  // namespace

void choose_algorithms(MatrixProducts products) {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // nothing reads memory that it has not written
  // cuBLAS reads it when its first handle is made, after this; its default workspaces may change bits.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuDNN(products == MatrixProducts::kTf32);
  context.setAllowTF32CuBLAS(products == MatrixProducts::kTf32);
  context.setAllowBF16ReductionCuBLAS(false);
}

Result<ComputeDevice> ComputeDevice::open(const std::string& name) {
  ComputeDevice opened;
  if (name == "cpu") return opened;
  REKINDLE_TRY(opened.device_, model::open(name));
  REKINDLE_TRY(opened.stream_, opened.device_->make_stream());
#ifdef REKINDLE_CUDA
  // LibTorch keeps what it has had once.
  if (name != "twin") opened.device_->when_full([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
#endif
#ifdef REKINDLE_CUDA
  if (name != "twin") REKINDLE_CHECK(watch_memory());
#endif
  if (name != "twin")
    opened.torch_ = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(opened.device_->index()));
  return opened;
}

void ComputeDevice::enter() {
  if (device_ == nullptr) return;
  if (torch_.is_cpu()) {  // LibTorch knows nothing of the twin's stream
    static_cast<void>(device_->synchronize(*stream_));
    return;
  }
  if (std::exchange(thread_, std::this_thread::get_id()) == std::this_thread::get_id()) return;
  // Autograd would compute on a thread of its own, where aborts and the places of gradients (both belong to a
  // thread) are unknown.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
#ifdef REKINDLE_CUDA
  c10::cuda::setCurrentCUDAStream(
      c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream_->native()), torch_.index()));
#endif
}

bool ComputeDevice::memory_was_full() {
#ifdef REKINDLE_CUDA
  return memory_was_short.exchange(false);
#else
  return false;
#endif
}

Status ComputeDevice::check_memory() const {
  if (memory_was_full())
    return fail(ExitCode::kConfig, str(name(), " has too little memory left: the bits could be others"),
                "use fewer programs and trainers on this GPU; a new run: more --micro-batches, or a smaller "
                "--batch-size");
  return {};
}

at::Tensor ComputeDevice::tensor(std::span<const float> memory) const {
  if (memory.empty()) return {};
  // from_blob wants a pointer to non-const.
  auto* const data = const_cast<float*>(memory.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return at::from_blob(data, {static_cast<std::int64_t>(memory.size())},
                       at::TensorOptions(at::kFloat).device(torch_));
}

}  // namespace rekindle::model
