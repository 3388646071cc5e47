// Processes a tensor of any size in pieces that fit into memory. Internal to checkpoint/.
#pragma once

#include <functional>

#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {

inline constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;

// Visits all bytes of a tensor, in order.
Status each_piece(const TensorSource& source, std::size_t tensor,
                  const std::function<Status(std::span<const std::byte>)>& visit);

// Writes a piece to a new file, which reads as zeros. Zeros are not written, so that a small file of holes
// cannot fill a disk. The caller sets the file's size at the end.
Status write_piece(int fd, const FilePath& path, std::uint64_t offset, std::span<const std::byte> piece);
Status set_size(int fd, const FilePath& path, std::uint64_t size);

}  // namespace rekindle::checkpoint
