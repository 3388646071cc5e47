// One peer on this host, as seen through its shared memory.
#pragma once

#include <memory>
#include <vector>

#include "exchange/control.hpp"
#include "exchange/segment.hpp"

namespace rekindle::exchange {

class ShmPeer {
 public:
  // Maps the peer's control segment. Checks that the segment is the peer's, not that of a process with a
  // reused pid.
  static Result<ShmPeer> open(const Endpoint& endpoint, int rank, std::size_t floats);

  int rank() const { return rank_; }
  int process() const { return process_.get(); }  // pidfd: readable when the process is dead
  const std::atomic<std::uint32_t>& bell() const { return control().bell; }

  // Looks for the peer's page of this generation. True if the page exists.
  bool find(std::uint64_t term, std::uint64_t generation);
  std::uint64_t plan_hash() const { return page_->plan_hash.load(std::memory_order_relaxed); }

  // Whether the peer has published `value` or more in this generation. For a page that was reused for a later
  // generation the result is false: a reader of that generation's word (acquire) also sees the new stamp.
  bool reached(const Word GenerationPage::*word, std::uint64_t value) const {
    return (page_->*word).load(std::memory_order_acquire) >= value && current();
  }
  // Whether the peer will publish nothing more in this generation.
  bool left() const {
    return page_ != nullptr && (page_->left.load(std::memory_order_acquire) != 0 || !current());
  }
  // True: everything read from the peer before this call was read while the peer was in this generation. This
  // covers an abort during the read: the peer sets `left` before it writes to its slots again (seqlock).
  bool still_here() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return !left();
  }

  // True: everything read from its slots before this call belongs to this generation, even if the peer has
  // left meanwhile.
  bool slots_kept() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return control().slots_stamp.load(std::memory_order_relaxed) <= stamp_;
  }

  StepHeader header(std::uint64_t round) const { return page_->headers[round % 2]; }
  std::uint64_t copy_hash() const { return page_->copy_hash.load(std::memory_order_acquire); }
  Result<const float*> slot(int i);
  Result<const std::byte*> staging();

 private:
  const Control& control() const { return *reinterpret_cast<const Control*>(control_.data()); }
  bool current() const { return page_->stamp.load(std::memory_order_acquire) == stamp_; }
  Result<Mapping> map(int fd, std::size_t bytes) const;

  int rank_ = 0;
  pid_t pid_ = 0;
  std::size_t floats_ = 0;
  Fd process_;
  Mapping control_, staging_;
  std::vector<Mapping> slots_;
  const GenerationPage* page_ = nullptr;
  std::uint64_t stamp_ = 0;
};

}  // namespace rekindle::exchange
