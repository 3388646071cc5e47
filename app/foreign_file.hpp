// Files of other programs, read so that none of them can harm this process.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::app {

// A .safetensors or .h5 file. The latter is parsed by a child process, which it may crash.
Result<checkpoint::Tensors> read_foreign_file(const std::filesystem::path& file);

// That child: `rekindle read-h5 FILE`.
inline constexpr const char* kReadH5 = "read-h5";
int run_read_h5(const std::filesystem::path& file);

}  // namespace rekindle::app
