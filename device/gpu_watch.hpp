// The use of a GPU, asked for every few seconds in a thread of its own, because NVML may be slow or hang.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "device/nvml.hpp"

namespace rekindle::device {

class GpuWatch {
 public:
  // `library` and `identity` as those of NvmlGpu::open(). Without NVML, the use stays unknown.
  GpuWatch(std::string library, std::string identity,
           std::chrono::milliseconds pause = std::chrono::seconds(3));
  // If a call of NVML hangs, its thread is left behind after a second.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Never waits for NVML. The last answer, also if it is old because a later call hangs.
  GpuUse newest() const;

 private:
  struct Shared;
  static void watch(Shared& shared);

  const std::shared_ptr<Shared> shared_;  // shared: a thread that hangs outlives this object
  std::thread thread_;
};

}  // namespace rekindle::device
