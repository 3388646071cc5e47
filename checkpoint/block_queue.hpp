// Blocks of a file that one thread fills and another uses. Internal to checkpoint/.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace rekindle::checkpoint {

// A few blocks of each trainer of a machine leave enough of the processor's cache for training.
inline constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

// Memory for one block: a huge page, if the system has one. With a huge page, I/O past the page cache takes
// half the processor time and two thirds of the wall time. That I/O needs only the alignment of a small page.
// Not from the heap: the heap keeps freed memory, and leaves a gap of the same size between aligned blocks.
class BlockBuffer {
 public:
  BlockBuffer();
  std::span<std::byte> bytes() { return {bytes_.get(), kBlockBytes}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

struct Block {
  std::uint64_t begin = 0;  // in the file
  std::span<const std::byte> bytes;
  std::optional<BlockBuffer> buffer;  // contains `bytes`; empty: `bytes` are lent, memory of another owner
};

class BlockQueue {
 public:
  // ---- the filling thread ----

  // Returns a new buffer for the first blocks and after `hurry`; otherwise, or if memory is short, waits for
  // a used buffer. Nullopt: no more blocks are wanted.
  std::optional<BlockBuffer> take(const std::stop_token& hurry = {});
  void put(Block block);
  void fail_with(Error why);
  // Waits until a block can be lent: at most one block is in use and one waits. False: do not lend, because
  // of `hurry` or because no more blocks are wanted.
  bool may_lend(const std::stop_token& hurry);
  void take_back();  // waits until no lent block is in use

  // ---- the using thread ----

  // Blocks in the order of put(). Fails if there is no memory, or if filling failed.
  Result<Block> next();
  void recycle(Block block);
  void give_up();  // no more blocks are wanted

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable_any recycled_;
  std::deque<Block> blocks_;          // guarded by mutex_, as all below
  std::vector<BlockBuffer> buffers_;  // free
  std::uint64_t in_use_ = 0;          // buffers that are being filled, wait, or are in use
  std::uint64_t lent_ = 0;            // blocks without a buffer that wait, or are in use
  bool given_up_ = false;
  std::optional<Error> failed_;
};

// A queue, and the thread that fills it ahead of the user of the blocks.
class BlockStream {
 public:
  explicit BlockStream(std::function<void(BlockQueue&)> fill)
      : thread_([this, fill = std::move(fill)] {
          try {
            fill(queue_);
          } catch (const std::exception& error) {
            queue_.fail_with({ExitCode::kGaveUp, error.what(), {}});
          }
        }) {}
  ~BlockStream() {
    queue_.give_up();
    thread_.join();
  }
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  Result<Block> next() { return queue_.next(); }
  void recycle(Block block) { queue_.recycle(std::move(block)); }

 private:
  BlockQueue queue_;
  std::thread thread_;  // last: uses queue_
};

}  // namespace rekindle::checkpoint
