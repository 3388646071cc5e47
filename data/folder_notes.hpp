// Where the notes about an image folder are kept (its index, and the hashes of its files): beside the data,
// or in this user's cache folder where the data cannot be written. Internal to data/.
//
// The cache folder is $XDG_CACHE_HOME/rekindle/notes or ~/.cache/rekindle/notes. It is used only if no other
// user may change it, and never made in another user's folder. The name of a note in it begins with a hash of
// the data's absolute path and inode, so that the copies that nodes have at the same path do not share it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle::data {

inline constexpr const char *kIndexNote = ".rekindle-index", *kHashesNote = ".rekindle-hashes";

// The place beside the data.
FilePath note_beside(const std::filesystem::path& root, const std::string& name);
// Where a note may be, the best place to write it first. In the cache folder, its trust is Trust::kOwn. `of`:
// what else a note in the cache folder depends on.
std::vector<FilePath> note_places(const std::filesystem::path& root, const std::string& name,
                                  const std::string& of = "");
// Replaces a note, without fsync. Unfinished copies of it that are older than an hour are removed, and in the
// cache folder the notes that were not written for 90 days.
Status write_note(const FilePath& place, std::string_view text);

}  // namespace rekindle::data
