// What the readers of the formats share. Internal to data/.
#pragma once

#include <filesystem>
#include <string>

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

// The folder with the test split of a folder that has the folder train: val, valid, validation or test. An
// error (ExitCode::kConfig) if there is none. `part`: what of a folder without splits is its test split, for
// the hint.
Result<std::string> test_folder(const std::filesystem::path& root, const char* part);

}  // namespace rekindle::data
