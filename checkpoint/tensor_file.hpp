// Tensors in the files of other programs. Content of such a file is checked before it is used. No memory is
// allocated from sizes that a file claims: tensors are read in pieces, or after the caller has chosen them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>
#include "base/file_path.hpp"

#include "base/input_file.hpp"
#include "base/result.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// Tensors and their memory. The role is always kParameter, because the files do not contain roles.
struct Tensors {
  std::vector<std::vector<std::byte>> storage;
  State state;
  // Allocates memory for one more tensor.
  std::span<std::byte> add(const TensorSpec& spec);
};

// Tensors that may be larger than memory.
struct TensorSource {
  StateSpec tensors;
  // Fills `out` with the bytes of tensor `tensor` (an index into `tensors`), starting at its byte `offset`.
  // `offset` is a multiple of 8.
  std::function<Status(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out)> read;
};
TensorSource source_of(const State& state);  // `state` must outlive the source

// Reads the tensors `chosen`, with their roles. They must be in `source`, with the same types and shapes.
Result<Tensors> read_tensors(const TensorSource& source, const StateSpec& chosen);

// An open .safetensors file whose header has been checked.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const FilePath& path);
  const StateSpec& tensors() const { return tensors_; }  // in order of their data
  // Fills `out`, starting at byte `offset` of the tensor.
  Status read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) const {
    return file_.read(offsets_[tensor] + offset, out);
  }
  TensorSource source() const;  // this object must outlive the source

 private:
  InputFile file_;
  StateSpec tensors_;
  std::vector<std::uint64_t> offsets_;  // in the file
};
// All tensors of the file, in memory.
Result<Tensors> read_safetensors(const FilePath& path);
// Writes `source` durably under `path`; removes the file on failure. Data are ordered by element size,
// largest first, then by tensor order, because readers map tensors in place and need them aligned.
Status write_safetensors(const FilePath& path, const TensorSource& source);
// The same for an empty file that is open for writing. Errors use the name `name`.
Status write_safetensors(Fd file, const FilePath& name, const TensorSource& source);

// Passes the datasets of an .h5 file's root group to `use`, which may read them until it returns. libhdf5
// parses the file, and a malicious file can crash libhdf5, so call this in a separate process.
Status with_h5(const FilePath& path, const std::function<Status(const TensorSource&)>& use);
// All datasets of the file, in memory.
Result<Tensors> read_h5(const FilePath& path);

// Writes durably under that name, by extension: .safetensors, .h5 or .pt. Replaces the file atomically.
// Another extension is a usage error.
Status check_writable_extension(const FilePath& file);
Status write_tensors(const FilePath& file, const TensorSource& source);
Status write_tensors(const FilePath& file, const State& state);

}  // namespace rekindle::checkpoint
