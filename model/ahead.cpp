#include "model/ahead.hpp"

#include <utility>

#include "base/log.hpp"
#include "trainer/sample_wait.hpp"

namespace rekindle::model {

Ahead::~Ahead() { forget(); }

std::span<const float> Ahead::images() const {
  const Slot& last = slots_[number_ % slots_.size()];
  if (!place_) return last.batch.images;
  return last.images.floats().first(last.batch.images.size());
}

Result<const data::Batch*> Ahead::next() {
  Slot& now = slot(number_ + 1);
  if (!now.full) {
    REKINDLE_TRY(data::Batch batch, loader_.next(trainer::kSampleLook));
    REKINDLE_CHECK(begin_copy(now, std::move(batch)));
  }
  ++number_;
  if (!place_) return &now.batch;
  place_.device->wait(*place_.stream, *now.copied);
  Slot& then = slot(number_ + 1);
  if (!then.full) {
    if (auto batch = loader_.next_if_ready()) REKINDLE_CHECK(begin_copy(then, std::move(*batch)));
  }
  return &now.batch;
}

Status Ahead::make_streams() {
  if (copies_ != nullptr) return {};
  REKINDLE_TRY(copies_, place_.device->make_stream());
  for (Slot& each : slots_) {
    REKINDLE_TRY(each.copied, place_.device->make_event());
  }
  return {};
}

Status Ahead::begin_copy(Slot& slot, data::Batch batch) {
  slot.batch = std::move(batch);
  slot.full = true;
  if (!place_) return {};
  REKINDLE_CHECK(make_streams());
  data::Floats& images = slot.batch.images;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(images));
  if (bytes.empty()) return {};
  if (!images.kept()) {
    if (const Status locked = place_.device->lock(bytes); !locked) log_warning(locked.error().line());
    images.keep(std::shared_ptr<void>(bytes.data(),
                                      [device = place_.device, bytes](void*) { device->unlock(bytes); }));
  }
  if (slot.images.bytes() < bytes.size()) {
    REKINDLE_TRY(slot.images, place_.device->allocate(bytes.size()));
  }
  place_.device->copy(*copies_, slot.images.data(), bytes.data(), bytes.size());
  place_.device->record(*copies_, *slot.copied);
  return {};
}

void Ahead::used() {
  Slot& now = slot(number_);
  if (std::exchange(now.full, false)) loader_.recycle(std::move(now.batch));
}

void Ahead::forget() {
  if (copies_ != nullptr) static_cast<void>(place_.device->synchronize(*copies_));
  for (Slot& each : slots_)
    if (std::exchange(each.full, false)) loader_.recycle(std::move(each.batch));
}

}  // namespace rekindle::model
