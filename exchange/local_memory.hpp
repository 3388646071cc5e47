// What a trainer shows to its peers on the same host: control segment, gradient slots, staging memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exchange/control.hpp"
#include "exchange/segment.hpp"

namespace rekindle::exchange {

class LocalMemory {
 public:
  static Result<LocalMemory> open(std::size_t floats, const std::string& nonce);

  int control_fd() const { return control_.fd.get(); }
  std::size_t floats() const { return floats_; }
  Result<std::span<float>> slot(int i);
  Result<std::span<std::byte>> staging();

  // A page for one more generation, all words zero, published.
  GenerationPage& claim_page(const Plan& plan, std::uint64_t plan_hash);

  // Stores and wakes whoever waits for this trainer.
  void publish(Word& word, std::uint64_t value) noexcept {
    word.store(value, std::memory_order_release);
    ring();
  }
  void ring() noexcept;

 private:
  Control& control() const { return *reinterpret_cast<Control*>(control_.memory.data()); }

  std::size_t floats_ = 0;
  std::uint64_t exchanges_ = 0;
  Segment control_, staging_;
  std::vector<Segment> slots_;
};

}  // namespace rekindle::exchange
