#include "base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <random>

#include "base/bytes.hpp"
#include "base/spot.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Writes a complete durable file under a temporary name; the caller renames or links it. `kept`: its mode in
// the end, where the storage has modes.
Status write_new(const Spot& spot, const FilePath& path, std::string_view text, unsigned mode, bool durably,
                 std::optional<mode_t> kept = {}) {
  REKINDLE_TRY(Fd fd, open_at(spot, path, O_WRONLY | O_CREAT | O_EXCL, mode));
  Status status = write_all(fd.get(), path, 0, bytes_of(text));
  if (kept && *kept != mode) std::ignore = ::fchmod(fd.get(), *kept);
  if (status && durably) status = sync_file(fd.get(), path);
  if (status) status = fd.close(path);
  if (!status) ::unlinkat(spot.at(), spot.name.c_str(), 0);
  return status;
}

// The name of `path` relative to `spot`, which is in the same folder.
std::string name_beside(const Spot& spot, const FilePath& path) {
  return spot.folder ? path.filename().string() : path.string();
}

// Network storage may repeat a call; the second call does not find the file, which counts as success.
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

// The mode of this user's file, without what lets others change it. With an access control list, the bits of
// the group are those of the list, which the new file will not have.
std::optional<mode_t> mode_of(const Spot& folder, const std::string& name) {
  constexpr mode_t kKept = 0755;
  struct stat info {};
  const bool there = ::fstatat(folder.at(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return std::nullopt;
  const std::string place = folder.folder ? str("/proc/self/fd/", folder.at(), "/", name) : name;
  if ((info.st_mode & S_IRWXG) != 0 && ::lgetxattr(place.c_str(), "system.posix_acl_access", nullptr, 0) > 0)
    return std::nullopt;
  return info.st_mode & kKept;
}

Status replace(const FilePath& path, std::string_view text, unsigned mode, bool durably) {
  constexpr unsigned kOwnersOnly = 0600;  // until it has the mode of the file before it
  const FilePath temporary = temporary_beside(path);
  REKINDLE_TRY(const Spot from, find(temporary));
  const std::string to = name_beside(from, path);
  const auto kept = mode == 0 ? mode_of(from, to) : std::nullopt;
  REKINDLE_CHECK(write_new(from, temporary, text, kept ? kOwnersOnly : mode, durably, kept));
  Status status = rename_at(from, from.at(), to, path);
  if (status && durably) status = sync_folder_of(from, path);
  if (!status) ::unlinkat(from.at(), from.name.c_str(), 0);
  return status;
}

}  // namespace

Error errno_error(std::string_view what, const FilePath& path) {
  const int error = errno;
  // Not for ENOENT. ESTALE is included, because it may disappear when the server is available again.
  Error described{ExitCode::kGaveUp,
                  str(what, " ", path.string(), ": ", std::strerror(error)),
                  {},
                  error != ENOENT ? ErrorKind::kSystem : ErrorKind::kOther};
  errno = error;
  return described;
}

// The random number is different for processes of several nodes with the same pid, and cannot be guessed.
FilePath temporary_beside(const FilePath& path) {
  std::random_device random;
  const std::uint64_t drawn = std::uint64_t{random()} << 32 | random();
  return path.parent_path() / str(path.filename().string(), ".tmp.", ::getpid(), ".", drawn);
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
    if (n == 0) return fail(str("cannot write ", path.string(), ": no byte was written"));  // or loop forever
    offset += static_cast<std::size_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::vector<std::byte>> read_range(const FilePath& path, std::size_t offset, std::size_t bytes) {
  REKINDLE_TRY(Fd fd, open_file(path, O_RDONLY));
  std::vector<std::byte> out(bytes);
  REKINDLE_CHECK(read_into(fd.get(), path, offset, out));
  return out;
}

namespace {

// For text and for bytes.
template <class Content>
Result<Content> read_content(const FilePath& path, std::size_t most_bytes) {
  REKINDLE_TRY(Fd fd, open_file(path, O_RDONLY | O_NONBLOCK));  // nonblocking: the file might be a pipe
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
  // Network storage may repeat a call; the second call finds the file that the first one created.
  const bool done_twice = linked != 0 && error == EEXIST &&
                          ::fstatat(from.at(), from.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                          info.st_nlink == 2;
  ::unlinkat(from.at(), from.name.c_str(), 0);
  if (linked != 0 && !done_twice) {
    if (error == EEXIST) return false;
    // EPERM: exFAT and folders of VirtualBox (link(2)); the others: SMB, and storage in user space.
    if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS)
      return fail(str("cannot create ", path.string(), ": this storage has no hard links, which a run needs"),
                  "use a run directory on other storage");
    errno = error;
    return forward_error(errno_error("cannot create", path));
  }
  REKINDLE_CHECK(sync_folder_of(from, path));
  return true;
}

Status shorten_file(const FilePath& path, std::size_t bytes) {
  REKINDLE_TRY(const Fd fd, open_file(path, O_WRONLY));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return forward_error(errno_error("cannot shorten", path));
  return {};
}

}  // namespace rekindle
