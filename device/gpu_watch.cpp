#include "device/gpu_watch.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace rekindle::device {
namespace {

constexpr std::chrono::seconds kLongestEnd{1};

}  // namespace

struct GpuWatch::Shared {
  const std::string library, identity;
  const std::chrono::milliseconds pause;

  std::mutex mutex;  // of all below
  std::condition_variable changed;
  GpuUse newest;
  bool ends = false, ended = false;
};

GpuWatch::GpuWatch(std::string library, std::string identity, std::chrono::milliseconds pause)
    : shared_(new Shared{std::move(library), std::move(identity), pause, {}, {}, {}}),
      thread_([shared = shared_] { watch(*shared); }) {}

GpuWatch::~GpuWatch() {
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kLongestEnd, [&] { return shared_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

GpuUse GpuWatch::newest() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->newest;
}

void GpuWatch::watch(Shared& shared) {
  if (const auto gpu = NvmlGpu::open(shared.library, shared.identity)) {
    for (std::unique_lock lock(shared.mutex); !shared.ends;) {
      lock.unlock();
      const GpuUse use = (*gpu)->use();
      lock.lock();
      shared.newest = use;
      shared.changed.wait_for(lock, shared.pause, [&] { return shared.ends; });
    }
  }
  const std::scoped_lock lock(shared.mutex);
  shared.ended = true;
  shared.changed.notify_all();
}

}  // namespace rekindle::device
