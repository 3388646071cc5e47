#include "checkpoint/read_ahead.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/block_file.hpp"

namespace rekindle::checkpoint {

BlockBuffer::BlockBuffer() : bytes_(static_cast<std::byte*>(::operator new(kBlockBytes, kAlignment))) {}

ReadAhead::ReadAhead(const Layout& layout, const std::vector<Piece>& pieces, std::function<void()> all_read)
    : layout_(layout), pieces_(pieces), all_read_(std::move(all_read)), thread_([this] { run(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  recycled_.notify_all();
  thread_.join();
}

void ReadAhead::run() {
  std::size_t next_piece = 0;
  for (std::uint64_t begin = 0; begin < layout_.bytes; begin += kBlockBytes) {
    auto buffer = take_buffer();
    if (!buffer) break;
    Block block{std::move(*buffer), begin, std::min<std::uint64_t>(kBlockBytes, layout_.bytes - begin)};
    fill(next_piece, begin, {block.buffer.data(), block.size});
    const std::lock_guard lock(mutex_);
    if (given_up_) break;
    blocks_.push_back(std::move(block));
    filled_.notify_one();
  }
  if (all_read_) all_read_();
}

// A block that lies at `begin` of the file, from the pieces and, around them, from the layout's image.
// `next_piece`: the first that does not end before this block.
void ReadAhead::fill(std::size_t& next_piece, std::uint64_t begin, std::span<std::byte> block) const {
  const std::uint64_t end = begin + block.size();
  const auto headers = [&](std::uint64_t from, std::uint64_t to) {
    if (from < to) layout_.headers.read(from, block.subspan(from - begin, to - from));
  };
  std::uint64_t done = begin;
  for (; next_piece < pieces_.size() && pieces_[next_piece].offset < end; ++next_piece) {
    const Piece& piece = pieces_[next_piece];
    const std::uint64_t from = std::max(piece.offset, begin);
    const std::uint64_t to = std::min(piece.offset + piece.bytes.size(), end);
    headers(done, from);
    std::memcpy(block.data() + (from - begin), piece.bytes.data() + (from - piece.offset), to - from);
    done = to;
    if (piece.offset + piece.bytes.size() > end) break;  // goes on in the next block
  }
  headers(done, end);
}

// Where memory is short, one that has been written; none at all if there is none to wait for.
std::optional<BlockBuffer> ReadAhead::take_buffer() {
  std::unique_lock lock(mutex_);
  if (buffers_.empty()) {
    try {
      BlockBuffer buffer;
      ++in_use_;
      return buffer;
    } catch (const std::bad_alloc&) {
      recycled_.wait(lock, [this] { return given_up_ || !buffers_.empty() || in_use_ == 0; });
    }
  }
  if (buffers_.empty()) {
    no_memory_ = true;
    filled_.notify_one();
    return std::nullopt;
  }
  BlockBuffer buffer = std::move(buffers_.back());
  buffers_.pop_back();
  ++in_use_;
  return buffer;
}

Result<ReadAhead::Block> ReadAhead::next() {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [this] { return !blocks_.empty() || no_memory_; });
  if (blocks_.empty()) return fail("no memory for a copy of the state");
  Block block = std::move(blocks_.front());
  blocks_.pop_front();
  return block;
}

void ReadAhead::recycle(Block block) {
  const std::lock_guard lock(mutex_);
  buffers_.push_back(std::move(block.buffer));
  --in_use_;
  recycled_.notify_one();
}

}  // namespace rekindle::checkpoint
