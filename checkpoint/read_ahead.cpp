#include "checkpoint/read_ahead.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "checkpoint/direct.hpp"
#include "checkpoint/failure.hpp"

namespace rekindle::checkpoint {
namespace {

// Lent at a time. A caller that waits for the memory waits for at most twice as much.
constexpr std::size_t kLentBytes = std::size_t{4} << 20;

bool is_aligned(const std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory) % kSector == 0; }

}  // namespace

bool ChunkCheck::matches(const Piece& piece, std::span<const std::byte> bytes) {
  if (piece.chunks.empty()) return true;
  while (!bytes.empty()) {
    const std::uint64_t chunk = hashed_ / piece.chunk_bytes;
    const std::uint64_t end = std::min<std::uint64_t>((chunk + 1) * piece.chunk_bytes, piece.bytes.size());
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), end - hashed_);
    hasher_.update(bytes.first(count));
    hashed_ += count;
    bytes = bytes.subspan(count);
    if (hashed_ < end) break;
    if (std::exchange(hasher_, Hasher128()).digest() != piece.chunks[chunk]) return false;
    if (hashed_ == piece.bytes.size()) hashed_ = 0;
  }
  return true;
}

ReadAhead::ReadAhead(const Layout& layout, const std::vector<Piece>& pieces, const Reading& reading)
    : layout_(layout),
      pieces_(pieces),
      reading_(reading),
      lends_(reading.still_as_hashed != nullptr),
      blocks_([this](BlockQueue& queue) { run(queue); }) {}

void ReadAhead::run(BlockQueue& queue) {
  try {
    make_blocks(queue);
  } catch (const std::exception& error) {
    queue.fail_with({ExitCode::kGaveUp, error.what(), {}});
  }
  queue.take_back();
  if (reading_.all_read) reading_.all_read();
}

void ReadAhead::make_blocks(BlockQueue& queue) {
  std::size_t next_piece = 0;
  for (std::uint64_t begin = 0; begin < layout_.bytes;) {
    if (next_piece < pieces_.size()) {
      const Piece& piece = pieces_[next_piece];
      const std::span<const std::byte> lent = lendable(piece, begin);
      if (!lent.empty() && queue.may_lend(reading_.hurry)) {
        queue.put({begin, lent, std::nullopt});
        begin += lent.size();
        if (begin == piece.offset + piece.bytes.size()) ++next_piece;
        continue;
      }
    }
    auto buffer = queue.take(reading_.hurry);
    if (!buffer) return;
    const std::uint64_t end = end_of_copy(next_piece, begin);
    const std::span<std::byte> room = buffer->bytes().first(end - begin);
    if (!fill(next_piece, begin, room)) return queue.fail_with(changed_state_error());
    queue.put({begin, room, std::move(buffer)});
    begin = end;
  }
}

std::span<const std::byte> ReadAhead::lendable(const Piece& piece, std::uint64_t begin) const {
  if (!lends_ || reading_.hurry.stop_requested() || begin < piece.offset || begin % kSector != 0) return {};
  const std::span<const std::byte> rest = piece.bytes.subspan(begin - piece.offset);
  if (!is_aligned(rest.data())) return {};
  return rest.first(std::min(kLentBytes, rest.size()) / kSector * kSector);
}

std::uint64_t ReadAhead::end_of_copy(std::size_t next_piece, std::uint64_t begin) const {
  const std::uint64_t end = std::min(begin + kBlockBytes, layout_.bytes);
  for (std::size_t i = next_piece; i < pieces_.size() && pieces_[i].offset < end; ++i) {
    if (pieces_[i].offset > begin && !lendable(pieces_[i], pieces_[i].offset).empty())
      return pieces_[i].offset;
  }
  return end;
}

// Copies and hashes slice by slice, so that each slice is still in the core's own cache when it is hashed.
// The hash is that of the copy, which is the data to be written.
bool ReadAhead::copy(const Piece& piece, std::uint64_t offset, std::span<std::byte> to) {
  constexpr std::size_t kSlice = std::size_t{128} << 10;
  for (std::size_t at = 0; at < to.size(); at += kSlice) {
    const std::span<std::byte> slice = to.subspan(at, std::min(kSlice, to.size() - at));
    std::memcpy(slice.data(), piece.bytes.data() + offset + at, slice.size());
    if (!check_.matches(piece, slice)) return false;
  }
  return true;
}

// Fills the block at `begin` of the file with pieces and, around them, with bytes of the layout.
// `next_piece`: the first piece that does not end before this block.
bool ReadAhead::fill(std::size_t& next_piece, std::uint64_t begin, std::span<std::byte> block) {
  const std::uint64_t end = begin + block.size();
  const auto headers = [&](std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    const std::span<std::byte> bytes = block.subspan(from - begin, to - from);
    layout_.headers.read(from, bytes);
    frame_.update(bytes);
  };
  std::uint64_t done = begin;
  for (; next_piece < pieces_.size() && pieces_[next_piece].offset < end; ++next_piece) {
    const Piece& piece = pieces_[next_piece];
    const std::uint64_t from = std::max(piece.offset, begin);
    const std::uint64_t to = std::min(piece.offset + piece.bytes.size(), end);
    headers(done, from);
    const std::span<std::byte> bytes = block.subspan(from - begin, to - from);
    if (!copy(piece, from - piece.offset, bytes)) return false;
    done = to;
    if (piece.offset + piece.bytes.size() > end) break;  // the rest is in the next block
  }
  headers(done, end);
  return true;
}

Hash128 ReadAhead::frame() { return frame_.digest(); }

}  // namespace rekindle::checkpoint
