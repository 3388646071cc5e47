#include "checkpoint/block_queue.hpp"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>

namespace rekindle::checkpoint {

namespace {

// Limits without `hurry`: enough that filling and using overlap, and few enough for a processor's cache.
constexpr std::uint64_t kBuffersAhead = 3;
constexpr std::uint64_t kLentAhead = 2;

}  // namespace

BlockBuffer::BlockBuffer() {
  constexpr std::size_t kEnough = 2 * kBlockBytes;  // contains an aligned huge page
  void* const all = ::mmap(nullptr, kEnough, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  void* begin = all;
  std::size_t rest = kEnough;
  std::align(kBlockBytes, kBlockBytes, begin, rest);
  bytes_.reset(static_cast<std::byte*>(begin));
  if (rest < kEnough) ::munmap(all, kEnough - rest);
  if (rest > kBlockBytes) ::munmap(bytes_.get() + kBlockBytes, rest - kBlockBytes);
  ::madvise(begin, kBlockBytes, MADV_HUGEPAGE);
}

void BlockBuffer::Free::operator()(std::byte* bytes) const { ::munmap(bytes, kBlockBytes); }

std::optional<BlockBuffer> BlockQueue::take(const std::stop_token& hurry) {
  std::unique_lock lock(mutex_);
  const auto wait = [&](const std::stop_token& until) {
    recycled_.wait(lock, until, [this] { return given_up_ || !buffers_.empty() || in_use_ == 0; });
  };
  if (buffers_.empty() && in_use_ >= kBuffersAhead) wait(hurry);
  if (given_up_) return std::nullopt;
  if (buffers_.empty()) {
    try {
      buffers_.emplace_back();
    } catch (const std::bad_alloc&) {
      wait({});
    }
  }
  if (given_up_) return std::nullopt;
  if (buffers_.empty()) {
    failed_ = Error{ExitCode::kGaveUp, "no memory for a block of a checkpoint", {}};
    filled_.notify_one();
    return std::nullopt;
  }
  BlockBuffer buffer = std::move(buffers_.back());
  buffers_.pop_back();
  ++in_use_;
  return buffer;
}

void BlockQueue::put(Block block) {
  const std::lock_guard lock(mutex_);
  if (!block.buffer) ++lent_;
  blocks_.push_back(std::move(block));
  filled_.notify_one();
}

void BlockQueue::fail_with(Error why) {
  const std::lock_guard lock(mutex_);
  failed_ = std::move(why);
  filled_.notify_one();
}

bool BlockQueue::may_lend(const std::stop_token& hurry) {
  std::unique_lock lock(mutex_);
  recycled_.wait(lock, hurry, [this] { return given_up_ || lent_ < kLentAhead; });
  return !given_up_ && !hurry.stop_requested();
}

void BlockQueue::take_back() {
  std::unique_lock lock(mutex_);
  recycled_.wait(lock, [this] { return given_up_ || lent_ == 0; });
}

Result<Block> BlockQueue::next() {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [this] { return !blocks_.empty() || failed_.has_value(); });
  if (blocks_.empty()) return forward_error(*failed_);
  Block block = std::move(blocks_.front());
  blocks_.pop_front();
  return block;
}

void BlockQueue::recycle(Block block) {
  const std::lock_guard lock(mutex_);
  if (block.buffer) {
    buffers_.push_back(std::move(*block.buffer));
    --in_use_;
  } else {
    --lent_;
  }
  recycled_.notify_one();
}

void BlockQueue::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  recycled_.notify_all();
}

}  // namespace rekindle::checkpoint
