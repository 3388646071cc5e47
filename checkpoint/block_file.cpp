#include "checkpoint/block_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/files.hpp"
#include "base/hash.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;
namespace {

// Fills `block`, which lies at `begin` of the file, from the pieces and, around them, from the layout's
// image. `next` is the first piece that does not end before this block.
void fill_block(const Layout& layout, const std::vector<Piece>& pieces, std::size_t& next,
                std::uint64_t begin, std::span<std::byte> block) {
  const std::uint64_t end = begin + block.size();
  const auto headers = [&](std::uint64_t from, std::uint64_t to) {
    if (from < to) layout.headers.read(from, block.subspan(from - begin, to - from));
  };
  std::uint64_t done = begin;
  for (; next < pieces.size() && pieces[next].offset < end; ++next) {
    const Piece& piece = pieces[next];
    const std::uint64_t from = std::max(piece.offset, begin);
    const std::uint64_t to = std::min(piece.offset + piece.bytes.size(), end);
    headers(done, from);
    std::memcpy(block.data() + (from - begin), piece.bytes.data() + (from - piece.offset), to - from);
    done = to;
    if (piece.offset + piece.bytes.size() > end) break;  // goes on in the next block
  }
  headers(done, end);
}

Result<std::vector<std::uint64_t>> write_open_file(Fd& fd, const fs::path& path, const Layout& layout,
                                                   const std::vector<Piece>& pieces) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(blocks_in(layout.bytes));
  std::vector<std::byte> buffer(kBlockBytes);
  std::size_t next = 0;
  for (std::uint64_t begin = 0; begin < layout.bytes; begin += kBlockBytes) {
    const auto block = std::span(buffer).first(std::min<std::uint64_t>(kBlockBytes, layout.bytes - begin));
    fill_block(layout, pieces, next, begin, block);
    hashes.push_back(hash64(block));
    REKINDLE_CHECK(write_all(fd.get(), path, begin, block));
    // Starts the disk now, so that the fsync below finds little left to do. Only a hint: errors show in
    // fsync.
    ::sync_file_range(fd.get(), static_cast<off64_t>(begin), static_cast<off64_t>(block.size()),
                      SYNC_FILE_RANGE_WRITE);
  }
  REKINDLE_CHECK(sync_file(fd.get(), path));
  REKINDLE_CHECK(fd.close(path));
  return hashes;
}

}  // namespace

Result<std::vector<std::uint64_t>> write_blocks(const fs::path& path, const Layout& layout,
                                                const std::vector<Piece>& pieces) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return forward_error(errno_error("cannot create", path));
  auto hashes = write_open_file(fd, path, layout, pieces);
  if (!hashes) ::unlink(path.c_str());
  return hashes;
}

}  // namespace rekindle::checkpoint
