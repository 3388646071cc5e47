// Names and directories, of base/files.hpp.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "base/files.hpp"
#include "base/spot.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

// Whether a later try cannot succeed: the path has a circle of symbolic links, leads through a file, or is
// too long.
bool is_lasting(int error) { return error == ELOOP || error == ENOTDIR || error == ENAMETOOLONG; }

unsigned mode_of_directory(const FilePath& path, unsigned mode) {
  if (mode != 0) return mode;
  return path.trust() == Trust::kNamed ? 0755 : 0700;
}

// Returns 0 or the errno. An error without an errno is returned as EPERM, with `why`.
int look(const FilePath& path, struct stat& info, Error* why = nullptr) {
  const auto spot = find(path);
  if (!spot) {
    const int error = errno;
    if (why != nullptr) *why = spot.error();
    return spot.error().code == ExitCode::kConfig ? EPERM : error;
  }
  const bool follow = path.trust() == Trust::kNamed || path.is_root();
  const auto call = [&] {
    return ::fstatat(spot->at(), spot->name.c_str(), &info, follow ? 0 : AT_SYMLINK_NOFOLLOW);
  };
  if (uninterrupted(call) == 0) return 0;
  const int error = errno;
  if (why != nullptr) *why = errno_error("cannot look at", path);
  return error;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

using Directory = std::unique_ptr<DIR, CloseDirectory>;

Result<Directory> directory_from(Fd fd, const FilePath& path) {
  Directory directory(::fdopendir(fd.get()));
  if (!directory) return forward_error(errno_error("cannot list", path));
  std::ignore = fd.release();
  return directory;
}

Result<std::vector<std::string>> list(const Directory& directory, const FilePath& path) {
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return forward_error(errno_error("cannot list", path));
  std::ranges::sort(names);
  return names;
}

Status remove_at(int at, const std::string& name, const FilePath& path) {
  struct stat info {};
  if (::fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return is_gone(errno) ? Status() : forward_error(errno_error("cannot look at", path));
  if (!S_ISDIR(info.st_mode)) {
    if (::unlinkat(at, name.c_str(), 0) == 0 || is_gone(errno)) return {};
    return forward_error(errno_error("cannot remove", path));
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd folder(uninterrupted([&] { return ::openat(at, name.c_str(), kFlags); }));
  if (!folder && is_gone(errno)) return {};
  if (!folder) return forward_error(errno_error("cannot remove", path));
  {
    REKINDLE_TRY(const Directory directory, directory_from(std::move(folder), path));
    REKINDLE_TRY(const auto names, list(directory, path));
    for (const std::string& each : names)
      REKINDLE_CHECK(remove_at(::dirfd(directory.get()), each, path / each));
  }
  if (::unlinkat(at, name.c_str(), AT_REMOVEDIR) == 0 || is_gone(errno)) return {};
  return forward_error(errno_error("cannot remove", path));
}

// Nullopt: with an error for which `is_missing` is true, or if a part of the path is a file.
Result<std::optional<struct stat>> look_unless(const FilePath& path, bool (*is_missing)(int error)) {
  struct stat info {};
  Error why;
  const int error = look(path, info, &why);
  if (error == 0) return std::optional(info);
  if (is_missing(error) || error == ENOTDIR) return std::nullopt;
  return forward_error(std::move(why));
}

}  // namespace

Result<std::optional<struct stat>> look_at(const FilePath& path) { return look_unless(path, is_gone); }

Result<std::optional<struct stat>> look_strictly_at(const FilePath& path) {
  return look_unless(path, [](int error) { return error == ENOENT; });
}

bool path_exists(const FilePath& path) {
  struct stat info {};
  return look(path, info) == 0;
}

bool is_file(const FilePath& path) {
  struct stat info {};
  return look(path, info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const FilePath& path) {
  struct stat info {};
  return look(path, info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::vector<std::string>> names_in(const FilePath& directory) {
  auto fd = open_file(directory, O_RDONLY | O_DIRECTORY);
  if (!fd && is_gone(errno) && fd.error().code != ExitCode::kConfig) return std::vector<std::string>();
  if (!fd) return forward_error(std::move(fd.error()));
  REKINDLE_TRY(const Directory opened, directory_from(std::move(*fd), directory));
  auto names = list(opened, directory);
  if (!names && is_gone(errno)) return std::vector<std::string>();
  return names;
}

bool await_file(const FilePath& path, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kFirst{50}, kLongest{500};  // each look is work for the storage
  auto pause = kFirst;
  for (auto waited = std::chrono::milliseconds(0);; waited += pause) {
    pause = std::clamp(waited / 8, kFirst, kLongest);
    struct stat info {};
    const int error = look(path, info);
    if (error == 0) return true;
    if (waited >= patience || is_lasting(error) || error == EPERM)
      return false;  // waiting does not help with these errors
    std::this_thread::sleep_for(pause);
    std::ignore = names_in(path.parent_path());  // listing a folder refreshes the node's cache of it
  }
}

Status make_directory(const FilePath& path, unsigned mode) {
  REKINDLE_TRY(const Spot spot, find(path));
  if (::mkdirat(spot.at(), spot.name.c_str(), mode_of_directory(path, mode)) == 0) {
    std::ignore = sync_folder_of(spot, path);  // the folder may belong to another user
    return {};
  }
  if (errno == EEXIST) return {};
  return forward_error(errno_error("cannot create directory", path));
}

Status make_directories(const FilePath& path, unsigned mode) {
  if (path.empty()) return {};
  if (is_folder(path)) return {};
  const FilePath parent = path.parent_path();
  if (parent.string() != path.string() && !is_folder(parent)) REKINDLE_CHECK(make_directories(parent));
  return make_directory(path, mode);
}

Status remove_file(const FilePath& path) {
  REKINDLE_TRY(const Spot spot, find(path));
  if (::unlinkat(spot.at(), spot.name.c_str(), 0) == 0 || is_gone(errno)) return {};
  return forward_error(errno_error("cannot remove", path));
}

Status remove_tree(const FilePath& path) {
  REKINDLE_TRY(const Spot spot, find(path));
  return remove_at(spot.at(), spot.name, path);
}

}  // namespace rekindle
