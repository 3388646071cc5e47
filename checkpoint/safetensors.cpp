#include "checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;

const char* safetensors_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "F32";
    case Dtype::kFloat64:
      return "F64";
    case Dtype::kInt64:
      return "I64";
    case Dtype::kInt32:
      return "I32";
    case Dtype::kUint8:
      return "U8";
    case Dtype::kBfloat16:
      return "BF16";
    case Dtype::kFloat16:
      return "F16";
  }
  return "";
}

namespace {

// The tensors in the order of their data. The text is made entry by entry, because an ordered JSON object
// compares each new entry with all others.
std::string header_of(const StateSpec& tensors, const std::vector<std::size_t>& order) {
  std::string header = str("{\"", kMetadata, "\":{\"format\":\"pt\"}");
  std::uint64_t offset = 0;
  for (const std::size_t i : order) {
    const TensorSpec& tensor = tensors[i];
    const std::uint64_t end = offset + tensor.bytes();
    const nlohmann::ordered_json entry = {
        {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    header += str(",", nlohmann::json(tensor.name).dump(), ":", entry.dump());
    offset = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

Status write_open_file(Fd& fd, const FilePath& path, const TensorSource& source,
                       const std::vector<std::size_t>& order) {
  const std::string header = header_of(source.tensors, order);
  const std::uint64_t header_bytes = header.size();
  std::uint64_t offset = 0;
  const auto append = [&](std::span<const std::byte> bytes) -> Status {
    REKINDLE_CHECK(write_piece(fd.get(), path, offset, bytes));
    offset += bytes.size();
    return {};
  };
  REKINDLE_CHECK(append(std::as_bytes(std::span(&header_bytes, 1))));
  REKINDLE_CHECK(append(std::as_bytes(std::span(header))));
  for (const std::size_t i : order) REKINDLE_CHECK(each_piece(source, i, append));
  REKINDLE_CHECK(set_size(fd.get(), path, offset));
  REKINDLE_CHECK(sync_file(fd.get(), path));
  return fd.close(path);
}

}  // namespace

Status write_safetensors(Fd file, const FilePath& name, const TensorSource& source) {
  const auto is_taken = [](const TensorSpec& each) { return each.name == kMetadata; };
  if (std::ranges::any_of(source.tensors, is_taken)) {
    return fail(
        ExitCode::kConfig,
        str("a tensor cannot be named ", kMetadata, " in a .safetensors file: the format reserves this name"),
        "give it another name");
  }
  std::vector<std::size_t> order(source.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&source](std::size_t i) { return bytes_of(source.tensors[i].dtype); });
  return write_open_file(file, name, source, order);
}

Status write_safetensors(const FilePath& path, const TensorSource& source) {
  REKINDLE_TRY(Fd file, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  Status status = write_safetensors(std::move(file), path, source);
  if (!status) std::ignore = remove_file(path);
  return status;
}

}  // namespace rekindle::checkpoint
