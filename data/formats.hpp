// The names, constants and readers of the file formats. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/input_file.hpp"
#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::data {

inline constexpr int kCifarSide = 32;
inline constexpr std::size_t kCifarPixels = 3 * 32 * 32;
inline constexpr std::size_t kCifarRecord = 1 + kCifarPixels;
inline constexpr int kMnistSide = 28;
inline constexpr std::size_t kMnistPixels = 28 * 28;
inline constexpr std::uint32_t kIdxLabels = 0x801, kIdxImages = 0x803;  // unsigned bytes; 1 or 3 dimensions
inline constexpr int kClasses = 10;                                     // of either format

const std::vector<std::string>& cifar_class_names();

Result<std::unique_ptr<Dataset>> open_cifar10(const std::filesystem::path& directory);
Result<std::unique_ptr<Dataset>> open_mnist(const std::filesystem::path& directory);

// Accepts "cifar10" and "mnist". Any other kind is a usage error that names the most similar kind.
Status check_kind(const std::string& kind);

// Opens a file that is not mostly holes. Errors are errors of the data (ExitCode::kConfig).
Result<InputFile> open_data_file(const std::filesystem::path& path);

}  // namespace rekindle::data
