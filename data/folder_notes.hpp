// Where the notes about an image folder are kept (its index, and the hashes of its files): beside the data,
// or in this user's cache folder where the data cannot be written. Internal to data/.
//
// The cache folder is $XDG_CACHE_HOME/rekindle/notes or ~/.cache/rekindle/notes. It is used only if no other
// user may change it, and never made in another user's folder. The name of a note in it begins with a hash of
// the data's absolute path and inode, so that the copies that nodes have at the same path do not share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle::data {

inline constexpr const char *kIndexNote = ".rekindle-index", *kHashesNote = ".rekindle-hashes";

// Whether `owner` is this user, root or the owner of the data. Another user's index could give the files
// other labels. The owner of the data can do that anyway.
bool is_of_user(std::uint32_t owner, const std::filesystem::path& root);
// False for a note of another user: two users who can write to the folder would replace each other's note at
// each start.
bool may_replace(const FilePath& place, const std::filesystem::path& root);

// The place beside the data.
FilePath note_beside(const std::filesystem::path& root, const std::string& name);
// Where a note may be, the best place to write it first. In the cache folder, its trust is Trust::kOwn. `of`:
// what else a note in the cache folder depends on.
std::vector<FilePath> note_places(const std::filesystem::path& root, const std::string& name,
                                  const std::string& of = "");
// Makes the cache folder, if the note is there, and removes the notes in it that were not written for 90
// days.
Status prepare_note(const FilePath& place);
// Replaces a note, without fsync, after prepare_note(). Unfinished copies of it that are older than an hour
// are removed.
Status write_note(const FilePath& place, std::string_view text);

}  // namespace rekindle::data
