#include "base/spot.hpp"

#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "base/trust.hpp"

namespace rekindle {
namespace fs = std::filesystem;
namespace {

unsigned mode_of_file(const FilePath& path, unsigned mode) {
  if (mode != 0) return mode;
  return path.trust() == Trust::kNamed ? 0644 : 0600;
}
Status check_trust(int fd, const struct stat& info, const FilePath& path) {
  if (path.trust() != Trust::kOwn) return {};
  // First, for any owner: as with unmounted storage, a later try may find the run's own directory again.
  if (path.is_root() && path.root_inode() != 0 && path.root_inode() != info.st_ino) {
    errno = EIO;  // not ENOENT: it is unknown whether the file exists
    return forward_error(
        Error{ExitCode::kGaveUp,
              str(path.string(), " is not the same directory as before: another directory is in its place"),
              "move that directory away, and move this run's own directory back", ErrorKind::kSystem});
  }
  return check_owner(fd, info, path);
}

Status check_trust(int fd, const FilePath& path) {
  if (path.trust() != Trust::kOwn) return {};
  struct stat info {};
  if (::fstat(fd, &info) != 0) return forward_error(errno_error("cannot stat", path));
  return check_trust(fd, info, path);
}

Error open_error(const FilePath& path) {
  if (errno == ELOOP && path.trust() != Trust::kNamed && !path.is_root())
    return {ExitCode::kConfig, str(path.string(), " is a symbolic link, which is not followed here"),
            "replace the link with the file itself"};
  return errno_error("cannot open", path);
}

// After a failed openat() with O_NOFOLLOW: with O_DIRECTORY, errno is ENOTDIR for a link, so map it to ELOOP.
Error open_at_error(int at, const std::string& name, const FilePath& path) {
  struct stat info {};
  const int error = errno;
  const bool link = error == ENOTDIR && ::fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISLNK(info.st_mode);
  errno = link ? ELOOP : error;
  return open_error(path);
}

}  // namespace

Result<Spot> find(const FilePath& path) {
  if (path.trust() == Trust::kNamed || path.is_root()) return Spot{Fd(), path.string()};
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  FilePath place = FilePath::below(path.root(), path.trust(), {}, path.root_inode());
  Fd folder(uninterrupted([&] { return ::open(path.root().c_str(), kFlags); }));
  if (!folder) return forward_error(open_error(place));
  REKINDLE_CHECK(check_trust(folder.get(), place));
  for (const fs::path& part : path.below_root().parent_path()) {
    place = place / part;
    Fd next(uninterrupted([&] { return ::openat(folder.get(), part.c_str(), kFlags | O_NOFOLLOW); }));
    if (!next) return forward_error(open_at_error(folder.get(), part, place));
    folder = std::move(next);
    REKINDLE_CHECK(check_trust(folder.get(), place));
  }
  return Spot{std::move(folder), path.below_root().filename().string()};
}

Status check_regular(const struct stat& info, const FilePath& path) {
  if (S_ISDIR(info.st_mode)) return fail(ExitCode::kConfig, str(path.string(), " is a directory"));
  if (S_ISREG(info.st_mode)) return {};
  return fail(ExitCode::kConfig, str(path.string(), " is not a regular file"),
              "replace it with a regular file (no pipe, no device, no link to either)");
}

Result<Fd> open_at(const Spot& spot, const FilePath& path, int flags, unsigned mode) {
  mode = mode_of_file(path, mode);
  if (path.trust() == Trust::kNamed) {
    Fd fd(uninterrupted([&] { return ::open(spot.name.c_str(), flags | O_CLOEXEC, mode); }));
    if (!fd) return forward_error(open_error(path));
    return fd;
  }
  const bool writes = (flags & O_ACCMODE) != O_RDONLY, makes_new = (flags & O_EXCL) != 0;
  if (writes && path.trust() == Trust::kForeign)
    throw std::logic_error("a foreign directory is not written to: " + path.string());
  const bool cuts = (flags & O_TRUNC) != 0;  // truncate only after the checks
  const int how = (flags & ~O_TRUNC) | O_CLOEXEC | O_NONBLOCK | (path.is_root() ? 0 : O_NOFOLLOW);
  Fd fd(uninterrupted([&] { return ::openat(spot.at(), spot.name.c_str(), how, mode); }));
  if (!fd) return forward_error(open_at_error(spot.at(), spot.name, path));
  if (makes_new) return fd;  // created by this process
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if ((flags & O_DIRECTORY) == 0) REKINDLE_CHECK(check_regular(info, path));
  REKINDLE_CHECK(check_trust(fd.get(), info, path));
  if (writes && info.st_nlink > 1)
    return fail(ExitCode::kConfig,
                str(path.string(), " has a second name (a hard link), so it is not written to"),
                "replace it with a copy");
  if (cuts && ::ftruncate(fd.get(), 0) != 0) return forward_error(errno_error("cannot shorten", path));
  return fd;
}

Status sync_folder_of(const Spot& spot, const FilePath& path) {
  if (spot.folder) return sync_file(spot.folder.get(), path.parent_path());
  return sync_directory(path.parent_path());
}

Result<Fd> open_file(const FilePath& path, int flags, unsigned mode) {
  REKINDLE_TRY(const Spot spot, find(path));
  return open_at(spot, path, flags, mode);
}

}  // namespace rekindle
