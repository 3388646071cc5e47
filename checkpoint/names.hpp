// All names on disk are made here. Internal to checkpoint/.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include "base/file_path.hpp"

#include "base/result.hpp"

namespace rekindle::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kVirtualFile = "whole.h5";
inline constexpr const char* kDamagedSuffix = ".damaged";

FilePath checkpoints_of(const FilePath& run_dir);
// What is known of the manifest; nothing if it is not there. A link that is not followed is an error.
Result<std::optional<struct stat>> look_at_manifest(const FilePath& checkpoint_dir);
std::string shard_file_name(std::size_t shards, std::size_t shard);
// A tensor's name must be one HDF5 link name and valid JSON text: UTF-8, not empty, not ".", no '/'. It is
// shown to people and written to logs: no control characters, either.
Status check_tensor_name(std::string_view name);

}  // namespace rekindle::checkpoint
