// Where the notes about an image folder are kept (its index, and the hashes of its files): beside the data,
// or in this user's cache folder where the data cannot be written. Internal to data/.
//
// A note in the cache folder has the hash of the data's absolute path in its name. The cache folder is
// $XDG_CACHE_HOME/rekindle or ~/.cache/rekindle. It is used only if nobody but this user and root may change
// it, and never made in another user's folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_path.hpp"

namespace rekindle::data {

inline constexpr const char *kIndexNote = ".rekindle-index", *kHashesNote = ".rekindle-hashes";

// The place beside the data.
FilePath note_beside(const std::filesystem::path& root, const std::string& name);
// Where a note is written; makes the cache folder if it is needed.
FilePath note_to_write(const std::filesystem::path& root, const std::string& name);
// Where a note may be, the best place first.
std::vector<FilePath> notes_to_read(const std::filesystem::path& root, const std::string& name);

}  // namespace rekindle::data
