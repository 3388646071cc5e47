// Files that are larger in memory than on storage: a file of a few kilobytes may have a size of terabytes, of
// which the rest are holes (sparse(7)), or may unpack to gigabytes. The memory used for a file is limited by
// the bytes that the file has on storage.
#pragma once

#include <cstdint>
#include <span>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

// A file whose `stored` bytes would take more than most_expanded(stored) bytes of memory is refused. Trained
// weights deflate by a few per cent, MNIST's images to a fifth.
inline constexpr std::uint64_t kMostExpansion = 64;
inline constexpr std::uint64_t kFreeExpansion = std::uint64_t{64} << 20;
inline constexpr std::uint64_t most_expanded(std::uint64_t stored) {
  return stored > (UINT64_MAX - kFreeExpansion) / kMostExpansion ? UINT64_MAX
                                                                 : kFreeExpansion + stored * kMostExpansion;
}

// A regular file, open for reading, so that reading never waits as with a pipe.
struct InputFile {
  Fd fd;
  FilePath path;
  std::uint64_t size = 0;  // with its holes
  // Without holes; equal to `size` if the storage does not report holes. Counted up to size / kMostExpansion.
  std::uint64_t stored = 0;
  std::uint32_t owner = 0;  // the user's number

  Status read(std::uint64_t offset, std::span<std::byte> out) const {
    return read_into(fd.get(), path, offset, out);
  }
};
// An error (ExitCode::kConfig) if the file is not a regular file, or cannot be opened.
Result<InputFile> open_input(const FilePath& path);
// An error (ExitCode::kConfig) if reading `file` would need more memory than its stored bytes allow.
Status check_holes(const InputFile& file);

}  // namespace rekindle
