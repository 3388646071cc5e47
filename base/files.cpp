#include "base/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"

namespace rekindle {
namespace fs = std::filesystem;
namespace {

// Whether an errno says what no later try changes: the path leads in a circle of symbolic links, through a
// file, or is too long.
bool is_lasting(int error) { return error == ELOOP || error == ENOTDIR || error == ENAMETOOLONG; }

// Trainers are told much by signals, and network file systems let those interrupt more than read and write.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

unsigned mode_of_file(const FilePath& path, unsigned mode) {
  if (mode != 0) return mode;
  return path.trust() == Trust::kNamed ? 0644 : 0600;
}
unsigned mode_of_directory(const FilePath& path, unsigned mode) {
  if (mode != 0) return mode;
  return path.trust() == Trust::kNamed ? 0755 : 0700;
}

// A name in a directory that is held open while it is used.
struct Spot {
  Fd folder;  // none: the name is a whole path
  std::string name;
  int at() const { return folder ? folder.get() : AT_FDCWD; }
};

Status check_trust(int fd, const FilePath& path) {
  if (path.trust() != Trust::kOwn) return {};
  struct stat info {};
  if (::fstat(fd, &info) != 0) return forward_error(errno_error("cannot stat", path));
  return check_owner(fd, info, path);
}

Error open_error(const FilePath& path) {
  if (errno == ELOOP && path.trust() != Trust::kNamed && !path.is_root())
    return {ExitCode::kConfig, str(path.string(), " is a symbolic link, which is not followed here"),
            "put the file itself there"};
  return errno_error("cannot open", path);
}

// From the root downwards, so that no directory on the way can be exchanged for a link.
Result<Spot> find(const FilePath& path) {
  if (path.trust() == Trust::kNamed || path.is_root()) return Spot{Fd(), path.string()};
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  FilePath place = FilePath::below(path.root(), path.trust());
  Fd folder(uninterrupted([&] { return ::open(path.root().c_str(), kFlags); }));
  if (!folder) return forward_error(open_error(place));
  REKINDLE_CHECK(check_trust(folder.get(), place));
  for (const fs::path& part : path.below_root().parent_path()) {
    place = place / part;
    Fd next(uninterrupted([&] { return ::openat(folder.get(), part.c_str(), kFlags | O_NOFOLLOW); }));
    if (!next) {
      struct stat info {};  // O_DIRECTORY with O_NOFOLLOW says "not a directory" of a link
      const int error = errno;
      const bool link =
          ::fstatat(folder.get(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
      errno = link ? ELOOP : error;
      return forward_error(open_error(place));
    }
    folder = std::move(next);
    REKINDLE_CHECK(check_trust(folder.get(), place));
  }
  return Spot{std::move(folder), path.below_root().filename().string()};
}

Status check_regular(const struct stat& info, const FilePath& path) {
  if (S_ISDIR(info.st_mode)) return fail(ExitCode::kConfig, str(path.string(), " is a directory"));
  if (S_ISREG(info.st_mode)) return {};
  return fail(ExitCode::kConfig, str(path.string(), " is not a regular file"),
              "put a file there, and no pipe, device or link to one");
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
  const bool cuts = (flags & O_TRUNC) != 0;  // not before it is known what would be cut
  const int how = (flags & ~O_TRUNC) | O_CLOEXEC | O_NONBLOCK | (path.is_root() ? 0 : O_NOFOLLOW);
  Fd fd(uninterrupted([&] { return ::openat(spot.at(), spot.name.c_str(), how, mode); }));
  if (!fd) return forward_error(open_error(path));
  if (makes_new) return fd;  // nobody else's
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if ((flags & O_DIRECTORY) == 0) REKINDLE_CHECK(check_regular(info, path));
  if (path.trust() == Trust::kOwn) REKINDLE_CHECK(check_owner(fd.get(), info, path));
  if (writes && info.st_nlink > 1)
    return fail(ExitCode::kConfig,
                str(path.string(), " has a second name (a hard link): it is not written to"),
                "put a file of its own there");
  if (cuts && ::ftruncate(fd.get(), 0) != 0) return forward_error(errno_error("cannot shorten", path));
  return fd;
}

// 0, or the errno; an error that is no errno of the system comes as EPERM, with `why`.
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

// A whole durable file under a temporary name; the caller renames or links it.
Status write_new(const Spot& spot, const FilePath& path, std::string_view text, unsigned mode, bool durably) {
  REKINDLE_TRY(Fd fd, open_at(spot, path, O_WRONLY | O_CREAT | O_EXCL, mode));
  Status status = write_all(fd.get(), path, 0, bytes_of(text));
  if (status && durably) status = sync_file(fd.get(), path);
  if (status) status = fd.close(path);
  if (!status) ::unlinkat(spot.at(), spot.name.c_str(), 0);
  return status;
}

// What `path` is called where `spot` is, which is beside it.
std::string name_beside(const Spot& spot, const FilePath& path) {
  return spot.folder ? path.filename().string() : path.string();
}

Status sync_folder_of(const Spot& spot, const FilePath& path) {
  if (spot.folder) return sync_file(spot.folder.get(), path.parent_path());
  return sync_directory(path.parent_path());
}

// A call that network storage has done twice does not find its file any more: that is success.
Status rename_at(const Spot& from, int folder, const std::string& to, const FilePath& path) {
  if (::renameat(from.at(), from.name.c_str(), folder, to.c_str()) == 0) return {};
  const int error = errno;
  struct stat info {};
  const bool done_twice = error == ENOENT &&
                          ::fstatat(from.at(), from.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 &&
                          ::fstatat(folder, to.c_str(), &info, 0) == 0;
  errno = error;
  return done_twice ? Status() : forward_error(errno_error("cannot rename to", path));
}

Status replace(const FilePath& path, std::string_view text, unsigned mode, bool durably) {
  const FilePath temporary = temporary_beside(path);
  REKINDLE_TRY(const Spot from, find(temporary));
  const std::string to = name_beside(from, path);
  REKINDLE_CHECK(write_new(from, temporary, text, mode, durably));
  Status status = rename_at(from, from.at(), to, path);
  if (status && durably) status = sync_folder_of(from, path);
  if (!status) ::unlinkat(from.at(), from.name.c_str(), 0);
  return status;
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

}  // namespace

// The random number tells processes of several nodes apart that have the same pid, and cannot be guessed.
FilePath temporary_beside(const FilePath& path) {
  std::random_device random;
  const std::uint64_t drawn = std::uint64_t{random()} << 32 | random();
  return path.parent_path() / str(path.filename().string(), ".tmp.", ::getpid(), ".", drawn);
}

Error errno_error(std::string_view what, const FilePath& path) {
  const int error = errno;
  // ESTALE too may be gone at the next look: the server was away.
  Error described{
      ExitCode::kGaveUp, str(what, " ", path.string(), ": ", std::strerror(error)), {}, error != ENOENT};
  errno = error;
  return described;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Status Fd::close(const FilePath& name) {
  if (::close(release()) != 0) return forward_error(errno_error("cannot close", name));
  return {};
}

Status read_into(int fd, const FilePath& path, std::size_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n =
        uninterrupted([&] { return ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset)); });
    if (n < 0) return forward_error(errno_error("cannot read", path));
    if (n == 0) return fail(str(path.string(), " ends too early"));
    offset += static_cast<std::size_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status write_all(int fd, const FilePath& path, std::size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n =
        uninterrupted([&] { return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n < 0) return forward_error(errno_error("cannot write", path));
    if (n == 0) return fail(str("cannot write ", path.string(), ": no byte was taken"));  // else for ever
    offset += static_cast<std::size_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<Fd> open_file(const FilePath& path, int flags, unsigned mode) {
  REKINDLE_TRY(const Spot spot, find(path));
  return open_at(spot, path, flags, mode);
}

Result<std::vector<std::byte>> read_range(const FilePath& path, std::size_t offset, std::size_t bytes) {
  REKINDLE_TRY(Fd fd, open_file(path, O_RDONLY));
  std::vector<std::byte> out(bytes);
  REKINDLE_CHECK(read_into(fd.get(), path, offset, out));
  return out;
}

namespace {

// A text or bytes.
template <class Content>
Result<Content> read_content(const FilePath& path, std::size_t most_bytes) {
  REKINDLE_TRY(Fd fd, open_file(path, O_RDONLY | O_NONBLOCK));  // nonblocking: it might be a pipe
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  REKINDLE_CHECK(check_regular(info, path));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > most_bytes)
    return fail(ExitCode::kConfig,
                str(path.string(), " has ", format_bytes(size), ", more than ", format_bytes(most_bytes)));
  Content out(size, {});
  REKINDLE_CHECK(read_into(fd.get(), path, 0, std::as_writable_bytes(std::span(out))));
  return out;
}

}  // namespace

Result<std::vector<std::byte>> read_file(const FilePath& path) {
  return read_content<std::vector<std::byte>>(path, std::numeric_limits<std::size_t>::max());
}

Result<std::string> read_text(const FilePath& path) {
  return read_text(path, std::numeric_limits<std::size_t>::max());
}

Result<std::string> read_text(const FilePath& path, std::size_t most_bytes) {
  return read_content<std::string>(path, most_bytes);
}

Status sync_file(int fd, const FilePath& path) {
  if (uninterrupted([&] { return ::fsync(fd); }) != 0)
    return forward_error(errno_error("cannot fsync", path));
  return {};
}

Status sync_directory(const FilePath& directory) {
  REKINDLE_TRY(Fd fd, open_file(directory, O_RDONLY | O_DIRECTORY));
  return sync_file(fd.get(), directory);
}

Status rename_durably(const FilePath& from, const FilePath& to) {
  REKINDLE_TRY(const Spot before, find(from));
  REKINDLE_TRY(const Spot after, find(to));
  REKINDLE_CHECK(rename_at(before, after.at(), after.name, to));
  return sync_folder_of(after, to);
}

Status replace_file(const FilePath& path, std::string_view text, unsigned mode) {
  return replace(path, text, mode, true);
}

Status replace_file_quickly(const FilePath& path, std::string_view text) {
  return replace(path, text, 0, false);
}

Result<bool> create_exclusively(const FilePath& path, std::string_view text, unsigned mode) {
  const FilePath temporary = temporary_beside(path);
  REKINDLE_TRY(const Spot from, find(temporary));
  const std::string to = name_beside(from, path);
  REKINDLE_CHECK(write_new(from, temporary, text, mode, true));
  const int linked = ::linkat(from.at(), from.name.c_str(), from.at(), to.c_str(), 0);
  const int error = errno;
  struct stat info {};
  // A call that network storage has done twice finds its own file.
  const bool done_twice = linked != 0 && error == EEXIST &&
                          ::fstatat(from.at(), from.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                          info.st_nlink == 2;
  ::unlinkat(from.at(), from.name.c_str(), 0);
  if (linked != 0 && !done_twice) {
    if (error == EEXIST) return false;
    errno = error;
    return forward_error(errno_error("cannot create", path));
  }
  REKINDLE_CHECK(sync_folder_of(from, path));
  return true;
}

Result<std::optional<struct stat>> look_at(const FilePath& path) {
  struct stat info {};
  Error why;
  const int error = look(path, info, &why);
  if (error == 0) return std::optional(info);
  if (is_gone(error) || error == ENOTDIR) return std::nullopt;
  return forward_error(std::move(why));
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
  constexpr std::chrono::milliseconds kPause{50};
  for (auto waited = std::chrono::milliseconds(0);; waited += kPause) {
    struct stat info {};
    const int error = look(path, info);
    if (error == 0) return true;
    if (waited >= patience || is_lasting(error) || error == EPERM)
      return false;  // waiting does not mend a path
    std::this_thread::sleep_for(kPause);
    std::ignore = names_in(path.parent_path());  // what a node remembers of a folder is renewed by listing it
  }
}

Status make_directory(const FilePath& path, unsigned mode) {
  REKINDLE_TRY(const Spot spot, find(path));
  if (::mkdirat(spot.at(), spot.name.c_str(), mode_of_directory(path, mode)) == 0) {
    std::ignore = sync_folder_of(spot, path);  // may be another user's
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

Status shorten_file(const FilePath& path, std::size_t bytes) {
  REKINDLE_TRY(const Fd fd, open_file(path, O_WRONLY));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return forward_error(errno_error("cannot shorten", path));
  return {};
}

}  // namespace rekindle
