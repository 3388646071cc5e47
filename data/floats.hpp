// Memory for the images of a batch, which somebody may lock for a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace rekindle::data {

class Floats {
 public:
  Floats() = default;
  explicit Floats(std::size_t size) : values_(size) {}
  Floats(Floats&& other) noexcept { swap(other); }
  Floats& operator=(Floats&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Floats() { keeper_.reset(); }  // before the memory goes

  void resize(std::size_t size) {
    if (size > values_.capacity()) keeper_.reset();
    values_.resize(size);
  }
  float* data() { return values_.data(); }
  const float* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  float& operator[](std::size_t i) { return values_[i]; }
  const float& operator[](std::size_t i) const { return values_[i]; }
  float* begin() { return data(); }
  float* end() { return data() + size(); }
  const float* begin() const { return data(); }
  const float* end() const { return data() + size(); }
  bool operator==(const Floats& other) const { return values_ == other.values_; }

  // An object that goes when this memory goes, before it.
  bool kept() const { return keeper_ != nullptr; }
  void keep(std::shared_ptr<void> keeper) { keeper_ = std::move(keeper); }

 private:
  void swap(Floats& other) noexcept {
    values_.swap(other.values_);
    keeper_.swap(other.keeper_);
  }

  std::vector<float> values_;
  std::shared_ptr<void> keeper_;
};

}  // namespace rekindle::data
