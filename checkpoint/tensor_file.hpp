// Tensors in the files of other programs. Nothing in such a file is believed before it is checked.
#pragma once

#include <cstddef>
#include <span>
#include <vector>
#include "base/file_path.hpp"

#include "base/files.hpp"
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

// An open .safetensors file whose header has been checked.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const FilePath& path);
  const StateSpec& tensors() const { return tensors_; }  // in order of their data
  // Fills `out`, which is as large as the tensor.
  Status read(std::size_t tensor, std::span<std::byte> out) const;

 private:
  Fd fd_;
  FilePath path_;
  StateSpec tensors_;
  std::vector<std::uint64_t> offsets_;  // in the file
};
Result<Tensors> read_safetensors(const FilePath& path);
// Writes `state` durably under `path`; removes it on failure. Data are packed with the largest element size
// first (readers map tensors in place and need them aligned), else in order.
Status write_safetensors(const FilePath& path, const State& state);

// The datasets of an .h5 file's root group. libhdf5 parses it, and files that mean harm can crash libhdf5:
// call this in a process that may die.
Result<Tensors> read_h5(const std::filesystem::path& path);

// Durable under that name: by extension .safetensors, .h5 or .pt. Replaced atomically. Another
// extension is a usage error.
Status check_writable_extension(const FilePath& file);
Status write_tensors(const FilePath& file, const State& state);

}  // namespace rekindle::checkpoint
