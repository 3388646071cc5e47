// Files of other programs, read so that none of them can harm this process.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::app {

// A .safetensors or .h5 file, its header checked and nothing of its tensors read. An .h5 file is parsed by a
// child process, which it may crash, and which leaves its tensors in memory.
Result<checkpoint::SafetensorsFile> open_foreign_file(const std::filesystem::path& file);

// That child: `rekindle read-h5 FILE`.
inline constexpr const char* kReadH5 = "read-h5";
int run_read_h5(const std::filesystem::path& file);

}  // namespace rekindle::app
