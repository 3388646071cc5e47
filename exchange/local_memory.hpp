// The memory of a trainer that peers on the same host can read: control segment, gradient slots, staging.
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

  // Publishes a page for one more generation, with all words zero.
  GenerationPage& claim_page(const Plan& plan, std::uint64_t plan_hash);

  // From now on the slots are written for the exchange of that page.
  void claim_slots(const GenerationPage& page);
  // The same for an exchange without a page.
  void claim_slots();

  // Stores the value and wakes all peers that wait for this trainer.
  void publish(Word& word, std::uint64_t value) noexcept {
    word.store(value, std::memory_order_release);
    ring();
  }
  void ring() noexcept;

 private:
  Control& control() const { return *reinterpret_cast<Control*>(control_.memory.data()); }
  std::uint64_t begin_exchange();
  void stamp_slots(std::uint64_t stamp);

  std::size_t floats_ = 0;
  std::uint64_t exchanges_ = 0;
  Segment control_, staging_;
  std::vector<Segment> slots_;
};

}  // namespace rekindle::exchange
