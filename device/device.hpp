// A device: its memory, streams, events and kernels, behind one interface. The exchange between GPUs and the
// update on a GPU are written against it, and are tested with the host twin (device/host_device.hpp), which
// needs no GPU.
//
// Every call returns at once, but for allocate(), free() and the two synchronize(). Operations of one stream
// run in their order; those of different streams, and the host, have no order but by events. Memory that an
// operation uses must stay, and must not be used by another one that is not ordered before or after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "device/kernels.hpp"

namespace rekindle::device {

// Tensors and slots begin at multiples of this many bytes.
inline constexpr std::size_t kAlignment = 256;

class Stream {
 public:
  virtual ~Stream() = default;
  // What other libraries call this stream (a cudaStream_t).
  virtual void* native() = 0;
};

class Event {
 public:
  virtual ~Event() = default;
};

class Memory;

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Differs between any two devices of a machine, and is the same for every process that uses one.
  virtual std::string identity() const = 0;
  // Where its hardware is in the machine. The parts of a GPU (MIG) are in one place.
  virtual std::string bus() const { return identity(); }
  // Its number among the devices of its kind that this process sees.
  virtual int index() const { return 0; }
  // How many of its kind this process sees.
  virtual int gpus() const { return 1; }

  // Makes this device the current one of the calling thread, for calls of other libraries. The device's own
  // calls do so themselves.
  virtual void use() {}

  // Memory of the device, all zero, at a multiple of kAlignment. Waits until every operation has ended, so
  // call it before the first step. Error: there is no more (ExitCode::kConfig).
  Result<Memory> allocate(std::size_t bytes);
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;

  // Between any two of device and host. Host memory should be locked, and has to stay until the copy has run.
  virtual void copy(Stream& stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void run(Stream& stream, const Kernel& kernel) = 0;
  // The event is over when all operations that the stream has now are.
  virtual void record(Stream& stream, Event& event) = 0;
  // Operations that the stream gets from now on begin when the last record() of `event` is over.
  virtual void wait(Stream& stream, Event& event) = 0;

  // Whether the last record() of the event is over. An event that was never recorded is.
  virtual Result<bool> is_over(Event& event) = 0;
  // Block until it is over, and until the stream is empty. Errors: an operation of this device has failed.
  virtual Status synchronize(Event& event) = 0;
  virtual Status synchronize(Stream& stream) = 0;

  // Locks memory of the host, so that copies from and to it go at full speed and at the same time as others.
  // Locking again does no harm. To be undone before the memory goes.
  virtual Status lock(std::span<std::byte> memory) = 0;
  virtual void unlock(std::span<std::byte> memory) noexcept = 0;

  // What to call when there is no more memory, before the device says so: somebody else may give some back.
  void when_full(std::function<void()> call) { when_full_ = std::move(call); }
  // The same for a library that takes memory by itself, and tells nobody when there is none.
  void make_room(std::size_t bytes) {
    if (when_full_ && free_bytes() < bytes) when_full_();
  }

 protected:
  // Errors of the device have this kind: the next generation would meet them again.
  static tl::unexpected<Error> broken(Error error) {
    error.kind = ErrorKind::kTask;
    return forward_error(std::move(error));
  }
  std::function<void()> when_full_;
  virtual std::size_t free_bytes() { return std::numeric_limits<std::size_t>::max(); }

  friend class Memory;
  virtual Result<void*> take(std::size_t bytes) = 0;
  virtual void give_back(void* memory) noexcept = 0;
};

// Owns memory of a device, which has to live longer.
class Memory {
 public:
  Memory() = default;
  Memory(Device& device, void* data, std::size_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  Memory(Memory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) device_->give_back(data_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // For kernels and copies; only on the host twin may the host look there.
  std::span<float> floats() const { return {static_cast<float*>(data_), bytes_ / sizeof(float)}; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Where an array is, and the stream that has its operations. Without a device: in host memory, and nothing is
// late.
struct Place {
  Device* device = nullptr;
  Stream* stream = nullptr;

  explicit operator bool() const { return device != nullptr; }
};

inline Result<Memory> Device::allocate(std::size_t bytes) {
  REKINDLE_TRY(void* const data, take(bytes));
  return Memory(*this, data, bytes);
}

}  // namespace rekindle::device
