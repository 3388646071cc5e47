// The host twin of a GPU: its memory is host memory, and each stream is a thread that runs its operations as
// late as the rules of device.hpp allow. An operation begins when somebody waits for it, or after a few
// milliseconds. So code that lacks an event reads old bytes here, and its test fails, where a GPU would most
// often be quick enough. For the same reason it finds its memory full at each allocation, at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "device/device.hpp"

namespace rekindle::device {

struct TwinOptions {
  std::uint64_t seed = 1;     // of the delays
  std::uint64_t most_ms = 5;  // an operation that nobody waits for begins within so many ms
  std::string identity = {};  // empty: one of its own
  std::string bus = {};       // empty: the identity
  int gpus = 1;               // of the machine
  std::size_t memory = std::numeric_limits<std::size_t>::max();  // bytes
};

// What native() of the twin's streams points to. A library that is loaded at run time (the stand-in for NCCL
// in the tests) gets its operations into the stream with this.
struct TwinStreamHandle {
  void* stream = nullptr;
  // `operation` runs later, on the stream's thread, and may block. Unless it returns 0, it is an error of the
  // device.
  void (*run)(void* stream, int (*operation)(void* argument), void* argument) = nullptr;
  // Whether the stream's device is the current one of the calling thread (Device::use()).
  bool (*is_in_use)(void* stream) = nullptr;
};

class HostDevice : public Device {
 public:
  // An operation of the caller's. An error is one of the device.
  virtual void run(Stream& stream, std::function<Status()> operation) = 0;
  using Device::run;

  // Bytes of memory that are not given back.
  virtual std::size_t bytes_taken() const = 0;
};

std::unique_ptr<HostDevice> make_host_device(const TwinOptions& options = {});
// The twin of a machine's trainer `number`. REKINDLE_TWIN_GPUS in the environment has the identities of the
// machine's GPUs, separated by commas; one that begins with ! cannot be opened. Without it, each trainer has
// one of its own. REKINDLE_TWIN_MEMORY: their bytes. Errors: those of claim_gpu().
Result<std::unique_ptr<Device>> make_host_device_for(int number);

}  // namespace rekindle::device
