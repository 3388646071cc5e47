// Reads files of other programs without risk to this process.
#pragma once

#include <filesystem>

#include "base/files.hpp"
#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::app {

// Opens a .safetensors or .h5 file and checks its header. The tensors of a .safetensors file are not read
// yet. An .h5 file is parsed by a child process, which the file may crash, and which copies the tensors to
// memory.
Result<checkpoint::SafetensorsFile> open_foreign_file(const std::filesystem::path& file);

// A file in memory, for another process.
Result<Fd> memory_file(const char* name);

// That child: `rekindle read-h5 FILE`.
inline constexpr const char* kReadH5 = "read-h5";
int run_read_h5(const std::filesystem::path& file);

}  // namespace rekindle::app
