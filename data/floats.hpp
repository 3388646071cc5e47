// Memory for the images of a batch, which somebody may lock for a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace rekindle::data {

class Floats {
 public:
  Floats() = default;
  explicit Floats(std::size_t size) { resize(size); }
  Floats(Floats&& other) noexcept { swap(other); }
  Floats& operator=(Floats&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Floats() { keeper_.reset(); }  // before the memory goes

  // The values are zero, or those that were there.
  void resize(std::size_t size) {
    if (size > capacity_) {
      keeper_.reset();
      // Whole pages, because pages are locked.
      const std::size_t bytes = (size * sizeof(float) + kPage - 1) / kPage * kPage;
      values_.reset(static_cast<float*>(::operator new(bytes, std::align_val_t(kPage))));
      std::fill_n(values_.get(), bytes / sizeof(float), 0.0F);
      capacity_ = bytes / sizeof(float);
    }
    size_ = size;
  }
  float* data() { return values_.get(); }
  const float* data() const { return values_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  float& operator[](std::size_t i) { return values_.get()[i]; }
  const float& operator[](std::size_t i) const { return values_.get()[i]; }
  float* begin() { return data(); }
  float* end() { return data() + size(); }
  const float* begin() const { return data(); }
  const float* end() const { return data() + size(); }
  bool operator==(const Floats& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

  // An object that goes when this memory goes, before it.
  bool kept() const { return keeper_ != nullptr; }
  void keep(std::shared_ptr<void> keeper) { keeper_ = std::move(keeper); }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, std::align_val_t(kPage)); }
  };
  void swap(Floats& other) noexcept {
    values_.swap(other.values_);
    keeper_.swap(other.keeper_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::unique_ptr<float, Free> values_;
  std::size_t size_ = 0, capacity_ = 0;
  std::shared_ptr<void> keeper_;
};

}  // namespace rekindle::data
