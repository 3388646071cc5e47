// Turns a laid-out file into blocks, ahead of whoever writes them: a few of them, and all the rest at once
// when somebody wants to change the memory that they come from. Internal to checkpoint/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "checkpoint/block_queue.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/layout.hpp"

namespace rekindle::checkpoint {

// Some bytes at some place of the file, and what they should be: the hash of each `chunk_bytes` of them (the
// last may be shorter), or none.
struct Piece {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::span<const Hash128> chunks = {};
  std::size_t chunk_bytes = 0;
};

// Hashes bytes as they come, and tells whether each chunk is what it should be.
class ChunkCheck {
 public:
  // `bytes` go on where the last ones ended, from the first chunk of `piece` to its last.
  bool matches(const Piece& piece, std::span<const std::byte> bytes);

 private:
  Hasher128 hasher_;
  std::uint64_t hashed_ = 0;  // of the piece
};

class ReadAhead {
 public:
  // `pieces` in order of offset, without overlaps.
  ReadAhead(const Layout& layout, const std::vector<Piece>& pieces, const Reading& reading);

  // In order of the file; as many as there are blocks, no more. Fails when there is no memory for it, or a
  // chunk is not what it should be.
  Result<Block> next() { return blocks_.next(); }
  void recycle(Block block) { blocks_.recycle(std::move(block)); }
  void lend_no_more() { lends_ = false; }
  Hash128 frame();  // of all bytes outside of the pieces; after the last block has come
  std::uint64_t bytes() const { return layout_.bytes; }  // of the file

 private:
  void run(BlockQueue& queue);
  void make_blocks(BlockQueue& queue);
  // What of a piece can be written from where it lies, from `begin` of the file on; none if it must be
  // copied.
  std::span<const std::byte> lendable(const Piece& piece, std::uint64_t begin) const;
  // Where a copied block that begins there ends.
  std::uint64_t end_of_copy(std::size_t next_piece, std::uint64_t begin) const;
  // False if a chunk is not what it should be.
  bool copy(const Piece& piece, std::uint64_t offset, std::span<std::byte> to);
  bool fill(std::size_t& next_piece, std::uint64_t begin, std::span<std::byte> block);

  const Layout& layout_;
  const std::vector<Piece>& pieces_;
  const Reading& reading_;
  std::atomic<bool> lends_;
  ChunkCheck check_;  // these two: only of the thread, until it has filled the last block
  Hasher128 frame_;
  BlockStream blocks_;  // last: its thread uses all of the above
};

}  // namespace rekindle::checkpoint
