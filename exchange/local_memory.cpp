#include "exchange/local_memory.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "base/text.hpp"
#include "exchange/futex.hpp"

namespace rekindle::exchange {

Result<LocalMemory> LocalMemory::open(std::size_t floats, const std::string& nonce) {
  assert(nonce.size() == kNonceBytes);
  LocalMemory memory;
  memory.floats_ = floats;
  REKINDLE_TRY(memory.control_, make_segment("rekindle-control", sizeof(Control)));
  auto* control = new (memory.control_.memory.data()) Control{};
  control->magic = kControlMagic;
  std::memcpy(control->nonce, nonce.data(), kNonceBytes);
  control->floats = floats;
  for (auto& fd : control->slot_fds) fd.store(-1);
  control->staging_fd.store(-1);
  return memory;
}

Result<std::span<float>> LocalMemory::slot(int i) {
  if (i < 0 || i >= kMaxSlots) return fail(str("gradient slot ", i, " of at most ", kMaxSlots));
  const auto index = static_cast<std::size_t>(i);
  if (slots_.size() <= index) slots_.resize(index + 1);
  if (!slots_[index].memory) {
    const std::size_t bytes = std::max<std::size_t>(floats_, 1) * sizeof(float);
    REKINDLE_TRY(slots_[index], make_segment("rekindle-slot", bytes));
    control().slot_fds[index].store(slots_[index].fd.get(), std::memory_order_release);
  }
  return std::span(reinterpret_cast<float*>(slots_[index].memory.data()), floats_);
}

Result<std::span<std::byte>> LocalMemory::staging() {
  if (!staging_.memory) {
    REKINDLE_TRY(staging_, make_segment("rekindle-staging", kStagingBytes));
    control().staging_fd.store(staging_.fd.get(), std::memory_order_release);
  }
  return std::span(staging_.memory.data(), kStagingBytes);
}

// Returns the number of the exchange.
std::uint64_t LocalMemory::begin_exchange() {
  // Peers in the previous generation must see that it has ended before this trainer writes to its slots
  // again.
  control().pages[exchanges_ % kPages].left.store(1, std::memory_order_release);
  return ++exchanges_;
}

GenerationPage& LocalMemory::claim_page(const Plan& plan, std::uint64_t plan_hash) {
  const std::uint64_t stamp = begin_exchange();
  GenerationPage& page = control().pages[stamp % kPages];
  // As in a seqlock: if a reader finds the same stamp before and after, all words are of one generation.
  page.stamp.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (Word* word :
       {&page.contributed, &page.ready, &page.read_done, &page.staged, &page.copied, &page.copy_hash})
    word->store(0, std::memory_order_relaxed);
  page.left.store(0, std::memory_order_relaxed);
  page.term.store(plan.term, std::memory_order_relaxed);
  page.generation.store(plan.generation, std::memory_order_relaxed);
  page.rank.store(static_cast<std::uint64_t>(plan.rank), std::memory_order_relaxed);
  page.plan_hash.store(plan_hash, std::memory_order_relaxed);
  publish(page.stamp, stamp);
  return page;
}

void LocalMemory::claim_slots(const GenerationPage& page) {
  stamp_slots(page.stamp.load(std::memory_order_relaxed));
}

void LocalMemory::claim_slots() { stamp_slots(begin_exchange()); }

// The writer's side of a seqlock: a reader that sees a slot written after this call also sees this number.
void LocalMemory::stamp_slots(std::uint64_t stamp) {
  control().slots_stamp.store(stamp, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

void LocalMemory::ring() noexcept {
  control().bell.fetch_add(1, std::memory_order_release);
  futex_wake_all(control().bell);
}

}  // namespace rekindle::exchange
