// Tensors in the files of other programs. Nothing in such a file is believed before it is checked, and no
// memory is taken for what a file claims: its tensors are read in pieces, or once somebody has chosen them.
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

// Tensors and their memory. Their role is kParameter: a file does not say.
struct Tensors {
  std::vector<std::vector<std::byte>> storage;
  State state;
  // Room for one more tensor.
  std::span<std::byte> add(const TensorSpec& spec);
};

// Tensors that may be larger than memory.
struct TensorSource {
  StateSpec tensors;
  // Fills `out` with the bytes of tensor `tensor` (its place in `tensors`) from byte `offset` of it on.
  // `offset` is a multiple of 8.
  std::function<Status(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out)> read;
};
TensorSource source_of(const State& state);  // which must outlive it

// Reads the tensors `chosen`, with their roles. They are in `source`, with these types and shapes.
Result<Tensors> read_tensors(const TensorSource& source, const StateSpec& chosen);

// An open .safetensors file whose header has been checked.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const FilePath& path);
  const StateSpec& tensors() const { return tensors_; }  // in order of their data
  // Fills `out` from byte `offset` of the tensor on.
  Status read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) const {
    return file_.read(offsets_[tensor] + offset, out);
  }
  TensorSource source() const;  // this must outlive it

 private:
  InputFile file_;
  StateSpec tensors_;
  std::vector<std::uint64_t> offsets_;  // in the file
};
// All of its tensors, in memory.
Result<Tensors> read_safetensors(const FilePath& path);
// Writes `source` durably under `path`; removes it on failure. Data are packed with the largest element size
// first (readers map tensors in place and need them aligned), else in order.
Status write_safetensors(const FilePath& path, const TensorSource& source);
// The same to an empty file that is open for writing; errors call it `name`.
Status write_safetensors(Fd file, const FilePath& name, const TensorSource& source);

// Hands the datasets of an .h5 file's root group to `use`, which may read them until it returns. libhdf5
// parses the file, and files that mean harm can crash libhdf5: call this in a process that may die.
Status with_h5(const FilePath& path, const std::function<Status(const TensorSource&)>& use);
// All of its datasets, in memory.
Result<Tensors> read_h5(const FilePath& path);

// Durable under that name: by extension .safetensors, .h5 or .pt. Replaced atomically. Another
// extension is a usage error.
Status check_writable_extension(const FilePath& file);
Status write_tensors(const FilePath& file, const TensorSource& source);
Status write_tensors(const FilePath& file, const State& state);

}  // namespace rekindle::checkpoint
