// Turns a laid-out file into blocks, ahead of whoever writes them: so memory that others want to change is
// read in the time of a copy, however slow the storage is. Internal to checkpoint/.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/layout.hpp"

namespace rekindle::checkpoint {

// Some bytes at some place of the file.
struct Piece {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

// Memory for one block, aligned as O_DIRECT wants it.
class BlockBuffer {
 public:
  BlockBuffer();
  std::byte* data() { return bytes_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

class ReadAhead {
 public:
  // `pieces` in order of offset, without overlaps. `all_read` is called once, from any thread, when no piece
  // will be read any more; the destructor sees to it in any case.
  ReadAhead(const Layout& layout, const std::vector<Piece>& pieces, std::function<void()> all_read);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  struct Block {
    BlockBuffer buffer;
    std::uint64_t begin = 0;  // in the file
    std::size_t size = 0;
    std::span<const std::byte> bytes() { return {buffer.data(), size}; }
  };
  // In order of the file; as many as there are blocks, no more. Fails when there is no memory for it.
  Result<Block> next();
  void recycle(Block block);
  std::uint64_t bytes() const { return layout_.bytes; }  // of the file

 private:
  void run();
  void fill(std::size_t& next_piece, std::uint64_t begin, std::span<std::byte> block) const;
  std::optional<BlockBuffer> take_buffer();

  const Layout& layout_;
  const std::vector<Piece>& pieces_;
  const std::function<void()> all_read_;
  std::mutex mutex_;
  std::condition_variable filled_, recycled_;
  std::deque<Block> blocks_;                   // guarded by mutex_
  std::vector<BlockBuffer> buffers_;           // guarded by mutex_
  std::uint64_t in_use_ = 0;                   // buffers that are filled, or being written; guarded by mutex_
  bool given_up_ = false, no_memory_ = false;  // guarded by mutex_
  std::thread thread_;                         // last: it uses all of the above
};

}  // namespace rekindle::checkpoint
