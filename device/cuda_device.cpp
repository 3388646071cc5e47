#include "device/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <iomanip>
#include <mutex>
#include <sstream>

#include "base/text.hpp"
#include "device/cuda_kernels.hpp"

namespace rekindle::device {
namespace {

std::string text_of(cudaError_t error) {
  return str(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

// 13.0 as CUDA numbers it: 13000.
std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

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

cudaStream_t of(Stream& stream) { return static_cast<CudaStream&>(stream).stream; }
cudaEvent_t of(Event& event) { return static_cast<CudaEvent&>(event).event; }

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const cudaDeviceProp& properties) : index_(index) {
    name_ = properties.name;
    std::ostringstream id;
    id << std::hex << std::setfill('0');
    for (const char byte : properties.uuid.bytes) id << std::setw(2) << (static_cast<unsigned>(byte) & 0xffU);
    identity_ = id.str();
  }

  std::string name() const override { return name_; }
  std::string identity() const override { return identity_; }
  int index() const override { return index_; }
  void use() override { use_device(index_); }

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
                "raise the limit on locked memory (ulimit -l)");
  }
  void unlock(std::span<std::byte> memory) noexcept override {
    use();
    // A failure means that it was not locked, which is what the caller wants.
    if (cudaHostUnregister(memory.data()) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }

 protected:
  Result<void*> take(std::size_t bytes) override {
    use();
    void* memory = nullptr;
    const std::size_t whole = std::max<std::size_t>(1, bytes);
    cudaError_t error = cudaMalloc(&memory, whole);
    if (error != cudaSuccess && when_full_) {
      static_cast<void>(cudaGetLastError());
      when_full_();
      error = cudaMalloc(&memory, whole);
    }
    if (error != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return broken(
          {ExitCode::kConfig, str(name_, " has no memory for ", bytes, " bytes (", text_of(error), ")"),
           "use fewer trainers on this GPU; a new run: a smaller --batch-size, or more --micro-batches"});
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
    if (error == cudaSuccess) return;
    const std::lock_guard lock(mutex_);
    if (failure_)
      failure_ = broken({ExitCode::kGaveUp, str(name_, ": ", what, " failed: ", text_of(error)),
                         "dmesg may say more (Xid)"});
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  const int index_;
  std::string name_, identity_;
  std::mutex mutex_;
  Status failure_;  // the first one
};

tl::unexpected<Error> no_device(std::string what, std::string hint) {
  return fail(ExitCode::kConfig, std::move(what), std::move(hint));
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int index) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (counted == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    return no_device(driver == 0 ? "no CUDA device: this machine has no NVIDIA driver"
                                 : str("the NVIDIA driver is for CUDA ", version_text(driver),
                                       ", and this build needs ", version_text(runtime)),
                     driver == 0 ? "use --device cpu" : "update the driver, or use --device cpu");
  }
  if (counted != cudaSuccess || count == 0)
    return no_device("no CUDA device: this machine has no GPU, or CUDA_VISIBLE_DEVICES hides it",
                     "use --device cpu");
  if (index >= count)
    return no_device(str("no CUDA device ", index, ": this process sees ", count),
                     "use fewer trainers on this machine, or several on one GPU");
  cudaDeviceProp properties{};
  REKINDLE_CHECK([&]() -> Status {
    if (cudaSetDevice(index) == cudaSuccess && cudaGetDeviceProperties(&properties, index) == cudaSuccess)
      return {};
    return no_device(str("GPU ", index, " cannot be used: ", text_of(cudaGetLastError())),
                     "look at nvidia-smi");
  }());
  if (const cudaError_t error = kernels_fit(); error != cudaSuccess)
    return no_device(str(properties.name, " (compute capability ", properties.major, ".", properties.minor,
                         ") cannot run this build: ", text_of(error)),
                     "use --device cpu");
  return std::make_unique<CudaDevice>(index, properties);
}

Result<std::unique_ptr<Device>> open_cuda_device_for(int number) {
  int count = 0;
  const bool counted = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  static_cast<void>(cudaGetLastError());
  return open_cuda_device(counted ? number % count : 0);
}

}  // namespace rekindle::device
