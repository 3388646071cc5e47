#include "data/folder_notes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kOwnersOnly = 0700;

bool can_write(const fs::path& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0;
}

bool is_own(const fs::path& folder) {
  const auto info = look_at(folder);
  return info && *info && (*info)->st_uid == ::geteuid();
}

// Empty: there is none.
fs::path cache_folder() {
  fs::path folder = environment_variable("XDG_CACHE_HOME");
  if (!folder.is_absolute()) folder = fs::path(environment_variable("HOME")) / ".cache";
  if (!folder.is_absolute()) return {};
  const bool made = is_folder(folder);
  return is_own(made ? folder : folder.parent_path()) ? folder / "rekindle" : fs::path();
}

// Empty: there is no cache folder.
FilePath note_in_cache(const fs::path& root, const std::string& name) {
  const fs::path folder = cache_folder();
  std::error_code ignored;
  const std::string place = fs::weakly_canonical(root, ignored).string();
  if (folder.empty() || place.empty()) return {};
  return FilePath::below(folder, Trust::kOwn) / str(hash128(std::as_bytes(std::span(place))).hex(), name);
}

}  // namespace

FilePath note_beside(const fs::path& root, const std::string& name) { return root / name; }

FilePath note_to_write(const fs::path& root, const std::string& name) {
  if (can_write(root)) return note_beside(root, name);
  const FilePath own = note_in_cache(root, name);
  if (own.empty() || !make_directories(own.root(), kOwnersOnly)) return note_beside(root, name);
  return own;
}

std::vector<FilePath> notes_to_read(const fs::path& root, const std::string& name) {
  std::vector<FilePath> places;
  if (!can_write(root)) {
    const FilePath own = note_in_cache(root, name);
    if (!own.empty()) places.push_back(own);
  }
  places.push_back(note_beside(root, name));
  return places;
}

}  // namespace rekindle::data
