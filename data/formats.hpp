// What the readers of the formats share. Internal to data/.
#pragma once

#include <filesystem>

#include "base/input_file.hpp"
#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::data {

inline constexpr int kCifarSide = 32;
inline constexpr int kMnistSide = 28;
inline constexpr int kClasses = 10;  // of either format

// Opens a file that is not mostly holes. Errors are errors of the data (ExitCode::kConfig).
Result<InputFile> open_data_file(const FilePath& path);

// An error (ExitCode::kConfig) if `path` is not a folder.
Status check_folder(const DatasetRow& row, const std::filesystem::path& path);

}  // namespace rekindle::data
