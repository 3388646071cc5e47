// The micro-batches of a loader with their images on a device: while one is computed, the images of the next
// one are on their way.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "data/loader.hpp"
#include "device/device.hpp"

namespace rekindle::model {

class Ahead {
 public:
  // Both live longer. Without a device, the images stay where they are.
  Ahead(data::Loader& loader, device::Place place) : loader_(loader), place_(place) {}
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // The next micro-batch, as Loader::next() has it. Its images may be used by operations that the place's
  // stream gets from now on. Begins to copy those of the one after it, if that is ready.
  Result<const data::Batch*> next();
  std::span<const float> images() const;  // of the last next()
  // The place's stream has all operations with the last next(), and they are over.
  void used();
  // The loader begins another order, or stops.
  void forget();

 private:
  struct Slot {
    data::Batch batch;
    device::Memory images;
    std::unique_ptr<device::Event> copied;
    bool full = false;
  };
  Status make_streams();
  Status begin_copy(Slot& slot, data::Batch batch);
  Slot& slot(std::size_t number) { return slots_[number % slots_.size()]; }

  data::Loader& loader_;
  const device::Place place_;
  std::unique_ptr<device::Stream> copies_;
  std::array<Slot, 2> slots_;
  std::size_t number_ = 0;  // of the last next()
};

}  // namespace rekindle::model
