// Turns a laid-out file into blocks before the writer needs them: usually a few, and all the rest at once
// when the caller wants to change the source memory. Internal to checkpoint/.
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

// Bytes at an offset of the file, and their expected hashes: one for each `chunk_bytes` bytes (the last chunk
// may be shorter), or none.
struct Piece {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::span<const Hash128> chunks = {};
  std::size_t chunk_bytes = 0;
};

// Hashes bytes piece by piece and compares each chunk with its expected hash.
class ChunkCheck {
 public:
  // `bytes` continue after the bytes of the last call, from the first chunk of `piece` to its last.
  bool matches(const Piece& piece, std::span<const std::byte> bytes);

 private:
  Hasher128 hasher_;
  std::uint64_t hashed_ = 0;  // of the piece
};

class ReadAhead {
 public:
  // `pieces` in order of offset, without overlaps.
  ReadAhead(const Layout& layout, const std::vector<Piece>& pieces, const Reading& reading);

  // The blocks in file order. Call once for each block. Fails if there is no memory, or if a chunk does not
  // match its hash.
  Result<Block> next() { return blocks_.next(); }
  void recycle(Block block) { blocks_.recycle(std::move(block)); }
  void lend_no_more() { lends_ = false; }
  Hash128 frame();  // of all bytes outside of the pieces; call after the last block
  std::uint64_t bytes() const { return layout_.bytes; }  // of the file

 private:
  void run(BlockQueue& queue);
  void make_blocks(BlockQueue& queue);
  // The part of a piece, from `begin` of the file on, that can be written without a copy. Empty if the piece
  // must be copied.
  std::span<const std::byte> lendable(const Piece& piece, std::uint64_t begin) const;
  // The end of a copied block that begins at `begin`.
  std::uint64_t end_of_copy(std::size_t next_piece, std::uint64_t begin) const;
  // False if a chunk does not match its hash.
  bool copy(const Piece& piece, std::uint64_t offset, std::span<std::byte> to);
  bool fill(std::size_t& next_piece, std::uint64_t begin, std::span<std::byte> block);

  const Layout& layout_;
  const std::vector<Piece>& pieces_;
  const Reading& reading_;
  std::atomic<bool> lends_;
  ChunkCheck check_;  // check_ and frame_ belong to the thread until it has filled the last block
  Hasher128 frame_;
  BlockStream blocks_;  // last: its thread uses all of the above
};

}  // namespace rekindle::checkpoint
