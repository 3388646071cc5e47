// The only place that makes names of files and folders on disk. Internal to checkpoint/.
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
// The stat of the manifest; nullopt if it does not exist. A symbolic link that is not followed is an error,
// and so is ESTALE: a checkpoint without a manifest may be deleted.
Result<std::optional<struct stat>> look_at_manifest(const FilePath& checkpoint_dir);
std::string shard_file_name(std::size_t shards, std::size_t shard);
// A tensor's name must be one HDF5 link name and valid JSON text: UTF-8, not empty, not ".", no '/'. The name
// appears in messages and logs, so control characters are not allowed either.
Status check_tensor_name(std::string_view name);

}  // namespace rekindle::checkpoint
