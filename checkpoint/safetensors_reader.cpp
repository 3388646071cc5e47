// https://github.com/huggingface/safetensors#format
#include "base/text.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;  // enough for 200 000 tensors

tl::unexpected<Error> bad_file(const FilePath& path, const std::string& why) {
  return fail(ExitCode::kConfig, str(path.string(), " cannot be used: ", why),
              "give a complete .safetensors file of float32 tensors");
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const FilePath& path) {
  SafetensorsFile file;
  REKINDLE_TRY(file.file_, open_input(path));
  const std::uint64_t size = file.file_.size;
  std::uint64_t header_bytes = 0;
  constexpr std::uint64_t kPrefix = sizeof header_bytes;
  if (size < kPrefix) return bad_file(path, "it is too short");
  REKINDLE_CHECK(file.file_.read(0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > kMaxHeaderBytes || header_bytes > size - kPrefix)
    return bad_file(path, str("its header would have ", header_bytes, " bytes"));
  std::string text(header_bytes, '\0');
  REKINDLE_CHECK(file.file_.read(kPrefix, std::as_writable_bytes(std::span(text))));
  auto entries = parse_header(text, size - kPrefix - header_bytes);
  if (!entries) return bad_file(path, entries.error().what);
  for (HeaderEntry& entry : *entries) {
    file.offsets_.push_back(kPrefix + header_bytes + entry.begin);
    file.tensors_.push_back(std::move(entry.spec));
  }
  return file;
}

TensorSource SafetensorsFile::source() const {
  return {tensors_, [this](std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) {
            return read(tensor, offset, out);
          }};
}

Result<Tensors> read_safetensors(const FilePath& path) {
  REKINDLE_TRY(const SafetensorsFile file, SafetensorsFile::open(path));
  return read_tensors(file.source(), file.tensors());
}

}  // namespace rekindle::checkpoint
