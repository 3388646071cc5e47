#include "data/folder_notes.hpp"

#include <unistd.h>

#include <ctime>
#include <span>

#include "base/files.hpp"
#include "base/guarded_file.hpp"
#include "base/hash.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kOwnersOnly = 0700;
// Seconds.
constexpr std::time_t kOldNote = std::time_t{90} * 24 * 3600;
constexpr std::time_t kOldTemporary = 3600;  // a writer that was killed has left it

bool is_own(const fs::path& folder) {
  const auto info = look_at(folder);
  return info && *info && (*info)->st_uid == ::geteuid();
}

// Empty: there is none.
fs::path cache_folder() {
  fs::path folder = environment_variable("XDG_CACHE_HOME");
  if (!folder.is_absolute()) folder = fs::path(environment_variable("HOME")) / ".cache";
  if (!folder.is_absolute()) return {};
  return is_own(is_folder(folder) ? folder : folder.parent_path()) ? folder / "rekindle" / "notes"
                                                                   : fs::path();
}

// Empty: there is no cache folder.
FilePath note_in_cache(const fs::path& root, const std::string& name, const std::string& of) {
  const fs::path folder = cache_folder();
  const auto info = look_at(root);
  if (folder.empty() || !info || !*info) return {};
  const std::string key =
      str(fs::absolute(root).lexically_normal().string(), '\n', (*info)->st_ino, '\n', of);
  return FilePath::below(folder, Trust::kOwn) / str(hash128(std::as_bytes(std::span(key))).hex(), name);
}

// This user's files in a folder whose names begin with `prefix`.
void remove_old(const FilePath& folder, const std::string& prefix, std::time_t seconds) {
  const auto names = names_in(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix)) continue;
    const auto info = look_at(folder / name);
    if (info && *info && (*info)->st_uid == ::geteuid() && (*info)->st_mtime < std::time(nullptr) - seconds)
      std::ignore = remove_file(folder / name);
  }
}

}  // namespace

bool is_of_user(std::uint32_t owner, const fs::path& root) {
  if (owner == ::geteuid() || owner == 0) return true;
  const auto data = look_at(root);
  return data && *data && (*data)->st_uid == owner;
}

bool may_replace(const FilePath& place, const fs::path& root) {
  const auto there = look_at(place);
  return there && (!*there || is_of_user((*there)->st_uid, root));
}

FilePath note_beside(const fs::path& root, const std::string& name) { return root / name; }

std::vector<FilePath> note_places(const fs::path& root, const std::string& name, const std::string& of) {
  std::vector<FilePath> places = {note_beside(root, name)};
  if (const FilePath cached = note_in_cache(root, name, of); !cached.empty())
    places.insert(is_writable(root) ? places.end() : places.begin(), cached);
  return places;
}

Status prepare_note(const FilePath& place) {
  if (place.trust() != Trust::kOwn) return {};
  REKINDLE_CHECK(make_directories(place.root(), kOwnersOnly));
  remove_old(place.parent_path(), "", kOldNote);
  return {};
}

Status write_note(const FilePath& place, std::string_view text) {
  REKINDLE_CHECK(prepare_note(place));
  remove_old(place.parent_path(), place.filename().string() + ".tmp.", kOldTemporary);
  return replace_file_quickly(place, text);
}

}  // namespace rekindle::data
