// What a folder of images has in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::data {

struct FolderEntry {
  std::string name;
  bool folder = false;
  std::uint64_t size = 0;
};

// Folders and regular files, also behind links, sorted by name. Not the hidden ones, and none that is neither
// a folder nor named like an image and has a name that is not UTF-8. Errors: a folder that cannot be read; a
// name, or something in the place of a file, that cannot be used.
Result<std::vector<FolderEntry>> entries_in(const std::filesystem::path& path);

}  // namespace rekindle::data
