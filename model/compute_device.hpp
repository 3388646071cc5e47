// Internal to the module: the device on which a model computes, as LibTorch names it, and as the exchange and
// the update use it.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/result.hpp"
#include "device/device.hpp"

namespace rekindle::model {

// How LibTorch computes products of float32 matrices on a GPU.
enum class MatrixProducts { kFloat32, kTf32 };

// Deterministic algorithms in this process, and the same ones always. An operator that has none throws, and
// names itself.
void choose_algorithms(MatrixProducts products);

// "cpu", "cuda", "cuda:N", or "twin": the code of a GPU with memory of the host (device/host_device.hpp), for
// development. "cuda" is the GPU of this trainer's number on its machine (LOCAL_RANK).
class ComputeDevice {
 public:
  // Errors (ExitCode::kConfig): there is no such device.
  static Result<ComputeDevice> open(const std::string& name);

  at::Device torch() const { return torch_; }
  device::Place place() const { return {device_.get(), stream_.get()}; }
  // A name of the device for people and for the fingerprint; empty on a CPU.
  std::string name() const { return device_ == nullptr ? "" : device_->name(); }

  // Call before LibTorch computes on the calling thread: its operators follow what is on the stream.
  void enter();
  // An error if a GPU has had no memory for LibTorch since the last call, though nobody said so: cuDNN takes
  // another algorithm then, and computes other bits.
  Status check_memory() const;
  // Whether that has happened since the last call of either.
  static bool memory_was_full();
  // The memory as a flat tensor.
  at::Tensor tensor(std::span<const float> memory) const;

 private:
  at::Device torch_{at::kCPU};
  std::unique_ptr<device::Device> device_;  // nullptr: the CPU
  std::unique_ptr<device::Stream> stream_;
  std::thread::id thread_;  // that has entered last
};

}  // namespace rekindle::model
