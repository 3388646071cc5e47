#include "device/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "device/cuda_errors.hpp"
#include "device/cuda_kernels.hpp"
#include "device/gpu_claim.hpp"
#include "device/local_rank.hpp"

namespace rekindle::device {
namespace {

std::string text_of(cudaError_t error) {
  return str(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

static_assert(kCudaSuccess == cudaSuccess && kCudaMemoryAllocation == cudaErrorMemoryAllocation &&
              kCudaInsufficientDriver == cudaErrorInsufficientDriver && kCudaNoDevice == cudaErrorNoDevice &&
              kCudaInvalidDeviceFunction == cudaErrorInvalidDeviceFunction &&
              kCudaInvalidKernelImage == cudaErrorInvalidKernelImage &&
              kCudaNoKernelImage == cudaErrorNoKernelImageForDevice &&
              kCudaInvalidPtx == cudaErrorInvalidPtx &&
              kCudaUnsupportedPtx == cudaErrorUnsupportedPtxVersion &&
              kCudaSystemNotReady == cudaErrorSystemNotReady &&
              kCudaDriverMismatch == cudaErrorSystemDriverMismatch);

// The current device belongs to the thread, and is GPU 0 in a new one. A call that does not choose would make
// a context there, of some hundred MB.
void use_device(int index) { static_cast<void>(cudaSetDevice(index)); }

struct CudaStream final : Stream {
  const int device;
  cudaStream_t stream = nullptr;

  explicit CudaStream(int device) : device(device) {}
  CudaStream(const CudaStream&) = delete;
  ~CudaStream() override {
    use_device(device);
    static_cast<void>(cudaStreamDestroy(stream));
  }
  void* native() override { return stream; }
};

struct CudaEvent final : Event {
  const int device;
  cudaEvent_t event = nullptr;

  explicit CudaEvent(int device) : device(device) {}
  CudaEvent(const CudaEvent&) = delete;
  ~CudaEvent() override {
    use_device(device);
    static_cast<void>(cudaEventDestroy(event));
  }
};

std::string identity_of(const cudaDeviceProp& properties) {
  std::ostringstream id;
  id << std::hex << std::setfill('0');
  for (const char byte : properties.uuid.bytes) id << std::setw(2) << (static_cast<unsigned>(byte) & 0xffU);
  return id.str();
}

cudaStream_t of(Stream& stream) { return static_cast<CudaStream&>(stream).stream; }
cudaEvent_t of(Event& event) { return static_cast<CudaEvent&>(event).event; }

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, int gpus, const cudaDeviceProp& properties)
      : index_(index),
        gpus_(gpus),
        name_(properties.name),
        identity_(identity_of(properties)),
        bus_(str(properties.pciDomainID, ":", properties.pciBusID, ":", properties.pciDeviceID)) {}

  void keep(std::vector<Fd> claims) { claims_ = std::move(claims); }

  std::string name() const override { return name_; }
  std::string identity() const override { return identity_; }
  std::string bus() const override { return bus_; }
  int index() const override { return index_; }
  void use() override { use_device(index_); }
  int gpus() const override { return gpus_; }

  Result<std::unique_ptr<Stream>> make_stream() override {
    auto made = std::make_unique<CudaStream>(index_);
    use();
    REKINDLE_CHECK(now(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "making a stream"));
    return made;
  }
  Result<std::unique_ptr<Event>> make_event() override {
    auto made = std::make_unique<CudaEvent>(index_);
    use();
    REKINDLE_CHECK(now(cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming), "making an event"));
    return made;
  }

  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    use();
    later(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "a copy");
  }
  void run(Stream& stream, const Kernel& kernel) override {
    use();
    later(launch(kernel, of(stream)), "a kernel");
  }
  void record(Stream& stream, Event& event) override {
    use();
    later(cudaEventRecord(of(event), of(stream)), "an event");
  }
  void wait(Stream& stream, Event& event) override {
    use();
    later(cudaStreamWaitEvent(of(stream), of(event), 0), "waiting for an event");
  }

  Result<bool> is_over(Event& event) override {
    REKINDLE_CHECK(failure());
    use();
    const cudaError_t error = cudaEventQuery(of(event));
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // it is no error, and the next check would find it
      return false;
    }
    REKINDLE_CHECK(now(error, "an operation"));
    return true;
  }
  Status synchronize(Event& event) override {
    REKINDLE_CHECK(failure());
    use();
    return now(cudaEventSynchronize(of(event)), "an operation");
  }
  Status synchronize(Stream& stream) override {
    REKINDLE_CHECK(failure());
    use();
    return now(cudaStreamSynchronize(of(stream)), "an operation");
  }

  Status lock(std::span<std::byte> memory) override {
    use();
    const cudaError_t error = cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
    if (error == cudaSuccess) return {};
    static_cast<void>(cudaGetLastError());
    if (error == cudaErrorHostMemoryAlreadyRegistered) return {};
    return fail(str("cannot lock ", memory.size(), " bytes of host memory: ", text_of(error)),
                "the machine or the job has too little memory for it: use fewer trainers on this machine");
  }
  void unlock(std::span<std::byte> memory) noexcept override {
    use();
    // A failure means that it was not locked, which is what the caller wants.
    if (cudaHostUnregister(memory.data()) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }

 protected:
  std::size_t free_bytes() override {
    use();
    std::size_t free = 0, all = 0;
    if (cudaMemGetInfo(&free, &all) == cudaSuccess) return free;
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  Result<void*> take(std::size_t bytes) override {
    use();
    void* memory = nullptr;
    const std::size_t whole = std::max<std::size_t>(1, bytes);
    cudaError_t error = cudaMalloc(&memory, whole);
    if (error == cudaErrorMemoryAllocation && when_full_) {
      static_cast<void>(cudaGetLastError());
      when_full_();
      error = cudaMalloc(&memory, whole);
    }
    if (error != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      const Error why = allocation_error(name_, bytes, error, text_of(error));
      if (error == cudaErrorMemoryAllocation) return broken(why);
      keep(why);  // the GPU has failed, in this call or in an earlier operation
      return forward_error(failure().error());
    }
    if (Status zeroed = now(cudaMemset(memory, 0, whole), "clearing memory"); !zeroed) {
      static_cast<void>(cudaFree(memory));
      return forward_error(zeroed.error());
    }
    // cudaMemset has no order with other streams.
    if (Status settled = now(cudaDeviceSynchronize(), "clearing memory"); !settled) {
      static_cast<void>(cudaFree(memory));
      return forward_error(settled.error());
    }
    return memory;
  }
  void give_back(void* memory) noexcept override {
    use();
    static_cast<void>(cudaFree(memory));
  }

 private:
  Status now(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return {};
    later(error, what);
    return failure();
  }
  void later(cudaError_t error, const char* what) {
    if (error != cudaSuccess) keep(operation_error(name_, what, text_of(error)));
  }
  void keep(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_ = broken(error);
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  const int index_, gpus_;
  const std::string name_, identity_, bus_;
  std::vector<Fd> claims_;  // of the GPU
  std::mutex mutex_;
  Status failure_;  // the first one
};

tl::unexpected<Error> no_device(std::string what, std::string hint) {
  return fail(ExitCode::kConfig, std::move(what), std::move(hint));
}

CudaStart start_cuda() {
  CudaStart start;
  const cudaError_t error = cudaGetDeviceCount(&start.gpus);
  static_cast<void>(cudaGetLastError());
  start.error = error;
  start.text = text_of(error);
  static_cast<void>(cudaDriverGetVersion(&start.driver));
  static_cast<void>(cudaRuntimeGetVersion(&start.runtime));
  return start;
}

Result<int> count_gpus() {
  const CudaStart start = start_cuda();
  REKINDLE_CHECK(check_start(start));
  return start.gpus;
}

tl::unexpected<Error> unusable(int index, cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return no_device(str("GPU ", index, " cannot be used: ", text_of(error)), "look at nvidia-smi");
}

Result<cudaDeviceProp> properties_of(int index) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return unusable(index, error);
  return properties;
}

Result<std::unique_ptr<CudaDevice>> open(int index, int gpus) {
  REKINDLE_TRY(const cudaDeviceProp properties, properties_of(index));
  if (const cudaError_t error = cudaSetDevice(index); error != cudaSuccess) return unusable(index, error);
  const cudaError_t error = kernels_fit();
  if (error == cudaSuccess) return std::make_unique<CudaDevice>(index, gpus, properties);
  if (!build_does_not_fit(error)) return unusable(index, error);
  return no_device(str(properties.name, " (compute capability ", properties.major, ".", properties.minor,
                       ") cannot run this build: ", text_of(error)),
                   "use --device cpu");
}

}  // namespace

Status check_cuda_driver() {
  const CudaStart start = start_cuda();
  return start.error == kCudaInsufficientDriver ? check_start(start) : Status();
}

Result<std::unique_ptr<Device>> open_cuda_device(int index) {
  REKINDLE_TRY(const int gpus, count_gpus());
  if (index >= gpus)
    return no_device(str("no CUDA device ", index, ": this process sees ", gpus),
                     "use fewer trainers on this machine, or several on one GPU");
  return open(index, gpus);
}

Result<std::unique_ptr<Device>> open_cuda_device_for(int number) {
  REKINDLE_TRY(const int gpus, count_gpus());
  std::vector<std::string> identities;
  for (int index = 0; index < gpus; ++index) {
    const auto properties = properties_of(index);
    identities.push_back(properties ? identity_of(*properties) : "");  // "": lost; the others can be used
  }
  std::unique_ptr<CudaDevice> device;
  REKINDLE_TRY(ClaimedGpu gpu, claim_gpu(identities, number, run_of_trainer(), [&](int index) -> Status {
                 REKINDLE_TRY(device, open(index, gpus));
                 return {};
               }));
  device->keep(std::move(gpu.claims));
  return device;
}

}  // namespace rekindle::device
