#include "checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
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
  }
  return "";
}

namespace {

std::string header_of(const State& state) {
  nlohmann::ordered_json json = {{kMetadata, {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const Tensor& tensor : state) {
    const std::uint64_t end = offset + tensor.bytes.size();
    json[tensor.spec.name] = {{"dtype", safetensors_name(tensor.spec.dtype)},
                              {"shape", tensor.spec.shape},
                              {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

Status write_open_file(Fd& fd, const FilePath& path, const State& state) {
  const std::string header = header_of(state);
  const std::uint64_t header_bytes = header.size();
  std::uint64_t offset = 0;
  const auto append = [&](std::span<const std::byte> bytes) -> Status {
    REKINDLE_CHECK(write_all(fd.get(), path, offset, bytes));
    offset += bytes.size();
    return {};
  };
  REKINDLE_CHECK(append(std::as_bytes(std::span(&header_bytes, 1))));
  REKINDLE_CHECK(append(std::as_bytes(std::span(header))));
  for (const Tensor& tensor : state) REKINDLE_CHECK(append(tensor.bytes));
  REKINDLE_CHECK(sync_file(fd.get(), path));
  return fd.close(path);
}

}  // namespace

Status write_safetensors(const FilePath& path, const State& state) {
  const auto is_taken = [](const Tensor& each) { return each.spec.name == kMetadata; };
  if (std::ranges::any_of(state, is_taken)) {
    return fail(
        ExitCode::kConfig,
        str("a tensor cannot be named ", kMetadata, " in a .safetensors file, where that is no tensor"),
        "give it another name");
  }
  State ordered = state;
  std::ranges::stable_sort(ordered, std::greater{},
                           [](const Tensor& each) { return bytes_of(each.spec.dtype); });
  REKINDLE_TRY(Fd fd, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  Status status = write_open_file(fd, path, ordered);
  if (!status) std::ignore = remove_file(path);
  return status;
}

}  // namespace rekindle::checkpoint
