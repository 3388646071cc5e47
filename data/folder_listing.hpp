// The files of an image folder, and the index that keeps them for the next start. Internal to data/.
//
// Layouts:
// - train/CLASS/... and val/CLASS/... (also valid/, validation/ or test/), as ImageNet has them; in
// TinyImageNet
//   the files of a class are in its folder images/, and val/ has images/ and val_annotations.txt.
// - CLASS/...: in each class, the tenth of the files with the smallest hashes of their names is the test
// split. Classes are the folders, sorted by their bytes; a class has the files in its folder and in the
// folders inside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::data {

struct ListedFile {
  std::uint32_t name = 0;    // where its name begins in FolderListing::names
  std::uint32_t folder = 0;  // in FolderListing::folders
  std::uint32_t label = 0;   // in FolderListing::class_names
  std::uint32_t size = 0;    // bytes
};

// A folder, or a file that lists files. The listing is of this time.
struct ListedPlace {
  std::string path;  // relative to the root
  // The later one of its times of modification and of change, in ns: rsync and tar put back only the first
  // one. Of the root: a hash of the names in it.
  std::int64_t stamp = 0;
};

struct FolderListing {
  std::vector<std::string> class_names;
  std::vector<ListedPlace> folders, lists;
  std::string names;                    // each ends with a NUL
  std::vector<ListedFile> train, test;  // sorted by label, folder and name
  // Of the listing in the index that this one replaced: its identity, and the first difference in words.
  std::string earlier_hash, change;

  const std::vector<ListedFile>& files(Split split) const { return split == Split::kTrain ? train : test; }
  std::string path_of(const ListedFile& file) const;  // relative to the root
};

inline constexpr std::uint32_t kMostImageBytes = UINT32_MAX;

// Looks at every file. Errors (ExitCode::kConfig): no images, fewer than two classes, names that are not
// UTF-8, formats of images that are not read, classes that differ between the splits, links without end.
Result<FolderListing> scan_folder(const std::filesystem::path& root);

// Whether the first folders in `root` have an image. Looks at a few names only.
bool has_image_folder(const std::filesystem::path& root);

// Splits, classes, names and sizes: the data set's identity.
Hash128 identity_of(const FolderListing& listing);

// Sets `now.earlier_hash` and `now.change`. `before`: the listing of the index that is out of date.
void note_change(const FolderListing& before, FolderListing& now);

// The stamp of a place now; nullopt if it is gone.
std::optional<std::int64_t> stamp_of(const std::filesystem::path& root, const std::string& place);
// Its modification time in ns; nullopt if it is gone.
std::optional<std::int64_t> modified_at(const std::filesystem::path& root, const std::string& place);

// The listing that an earlier process has written, if nothing was added or removed since then; nullopt if
// there is no such file, or if it is damaged or out of date, or belongs to another user than this one, root
// and the owner of the data. Names in it lead to no place outside, and sizes are compared when the files are
// read. Classes and splits are believed. A file that was overwritten in place is not noticed before it is
// read, except if it was empty. `outdated` (may be nullptr) becomes a listing that is intact and out of date.
std::optional<FolderListing> read_index(const std::filesystem::path& root, FolderListing* outdated = nullptr);
// Writes the listing (data/folder_notes.hpp), if the folder did not change in the last two seconds.
void write_index(const std::filesystem::path& root, const FolderListing& listing);
// Marks the index as out of date, after a file had another size than in it: the next process looks at every
// file, and names the difference. The result: an index that could not be marked, for people; usually empty.
std::string outdate_index(const std::filesystem::path& root);

}  // namespace rekindle::data
