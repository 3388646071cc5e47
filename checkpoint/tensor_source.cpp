#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {

std::span<std::byte> Tensors::add(const TensorSpec& spec) {
  auto& bytes = storage.emplace_back(spec.bytes());
  state.push_back({spec, bytes});
  return bytes;
}

TensorSource source_of(const State& state) {
  return {spec_of(state),
          [&state](std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) -> Status {
            std::ranges::copy(state[tensor].bytes.subspan(offset, out.size()), out.begin());
            return {};
          }};
}

Result<Tensors> read_tensors(const TensorSource& source, const StateSpec& chosen) {
  const auto by_name = places_by_name(source.tensors);
  Tensors tensors;
  for (const TensorSpec& spec : chosen)
    REKINDLE_CHECK(source.read(by_name.at(spec.name), 0, tensors.add(spec)));
  return tensors;
}

Status each_piece(const TensorSource& source, std::size_t tensor,
                  const std::function<Status(std::span<const std::byte>)>& visit) {
  const std::uint64_t bytes = source.tensors[tensor].bytes();
  std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes, kPieceBytes));
  for (std::uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes - offset));
    REKINDLE_CHECK(source.read(tensor, offset, piece));
    REKINDLE_CHECK(visit(piece));
  }
  return {};
}

Status write_piece(int fd, const FilePath& path, std::uint64_t offset, std::span<const std::byte> piece) {
  const bool zeros = !piece.empty() && piece[0] == std::byte{0} &&
                     std::memcmp(piece.data(), piece.data() + 1, piece.size() - 1) == 0;
  return zeros ? Status() : write_all(fd, path, offset, piece);
}

Status set_size(int fd, const FilePath& path, std::uint64_t size) {
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) return forward_error(errno_error("cannot write", path));
  return {};
}

}  // namespace rekindle::checkpoint
