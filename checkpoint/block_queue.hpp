// Blocks of a file on their way from the thread that fills them to the one that uses them. Internal to
// checkpoint/.
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

// Some of them, from each trainer of a machine, leave the processor's cache to those who compute.
inline constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

// Memory for one block: a huge page, if the system has one. Reading and writing past the page cache take half
// the processor time and two thirds of the time with it; a small page's alignment is all that they need. Not
// of the heap, which keeps what it was given, and lays as much again between blocks that are aligned so.
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
  std::optional<BlockBuffer> buffer;  // that they lie in; none: they are lent, from memory of somebody else
};

class BlockQueue {
 public:
  // ---- who fills ----

  // A new buffer at first, and whenever somebody hurries; else, and where memory is short, one that has been
  // used. Nullopt when no more is wanted.
  std::optional<BlockBuffer> take(const std::stop_token& hurry = {});
  void put(Block block);
  void fail_with(Error why);
  // Waits until a block can be lent: one that is used, and one that waits. False: it is not to be, since
  // somebody hurries or no more is wanted.
  bool may_lend(const std::stop_token& hurry);
  void take_back();  // waits until no lent block is used any more

  // ---- who uses ----

  // In the order in which they were put. Fails when there is no memory, or the filling failed.
  Result<Block> next();
  void recycle(Block block);
  void give_up();  // no more is wanted

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable_any recycled_;
  std::deque<Block> blocks_;          // guarded by mutex_, as all below
  std::vector<BlockBuffer> buffers_;  // that nobody uses
  std::uint64_t in_use_ = 0;          // buffers that are being filled, wait, or are used
  std::uint64_t lent_ = 0;            // blocks without one that wait, or are used
  bool given_up_ = false;
  std::optional<Error> failed_;
};

// A queue and the thread that fills it, ahead of whoever uses the blocks.
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
  std::thread thread_;  // last: it uses it
};

}  // namespace rekindle::checkpoint
