#include "base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "base/text.hpp"

namespace rekindle {
namespace fs = std::filesystem;
namespace {

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

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

// A whole durable file under a temporary name; the caller renames or links it.
Status write_durable(const fs::path& path, std::string_view text, unsigned mode) {
  REKINDLE_TRY(Fd fd, open_file(path, O_WRONLY | O_CREAT | O_TRUNC, mode));
  Status status = write_all(fd.get(), path, 0, bytes_of(text));
  if (status) status = sync_file(fd.get(), path);
  if (status) status = fd.close(path);
  if (!status) ::unlink(path.c_str());
  return status;
}

}  // namespace

// The number that is drawn tells processes of several nodes apart that have the same pid.
fs::path temporary_beside(const fs::path& path) {
  static const std::uint32_t drawn = std::random_device()();
  return str(path.string(), ".tmp.", ::getpid(), ".", drawn);
}

Error errno_error(std::string_view what, const fs::path& path) {
  const int error = errno;
  // ESTALE too may be gone at the next look: the server was away.
  return Error{
      ExitCode::kGaveUp, str(what, " ", path.string(), ": ", std::strerror(error)), {}, error != ENOENT};
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Status Fd::close(const fs::path& name) {
  if (::close(release()) != 0) return forward_error(errno_error("cannot close", name));
  return {};
}

Status read_into(int fd, const fs::path& path, std::size_t offset, std::span<std::byte> out) {
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

Status write_all(int fd, const fs::path& path, std::size_t offset, std::span<const std::byte> bytes) {
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

Result<Fd> open_file(const fs::path& path, int flags, unsigned mode) {
  const int fd = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (fd < 0) return forward_error(errno_error("cannot open", path));
  return Fd(fd);
}

Result<std::vector<std::byte>> read_range(const fs::path& path, std::size_t offset, std::size_t bytes) {
  REKINDLE_TRY(Fd fd, open_file(path, O_RDONLY));
  std::vector<std::byte> out(bytes);
  REKINDLE_CHECK(read_into(fd.get(), path, offset, out));
  return out;
}

Result<std::vector<std::byte>> read_file(const fs::path& path) {
  REKINDLE_TRY(Fd fd, open_file(path, O_RDONLY | O_NONBLOCK));  // nonblocking: it might be a pipe
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if (S_ISDIR(info.st_mode)) return fail(str(path.string(), " is a directory"));
  if (!S_ISREG(info.st_mode)) return fail(str(path.string(), " is not a file"));
  std::vector<std::byte> out(static_cast<std::size_t>(info.st_size));
  REKINDLE_CHECK(read_into(fd.get(), path, 0, out));
  return out;
}

Result<std::string> read_text(const fs::path& path) {
  REKINDLE_TRY(auto bytes, read_file(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status sync_file(int fd, const fs::path& path) {
  if (uninterrupted([&] { return ::fsync(fd); }) != 0)
    return forward_error(errno_error("cannot fsync", path));
  return {};
}

Status sync_directory(const fs::path& directory) {
  REKINDLE_TRY(Fd fd, open_file(directory, O_RDONLY | O_DIRECTORY));
  return sync_file(fd.get(), directory);
}

Status rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const bool already_there =
        errno == ENOENT && ::access(from.c_str(), F_OK) != 0 && ::access(to.c_str(), F_OK) == 0;
    errno = already_there ? 0 : errno;
    if (!already_there) return forward_error(errno_error("cannot rename to", to));
  }
  return sync_directory(parent_of(to));
}

Status replace_file(const fs::path& path, std::string_view text, unsigned mode) {
  const fs::path temporary = temporary_beside(path);
  REKINDLE_CHECK(write_durable(temporary, text, mode));
  Status status = rename_durably(temporary, path);
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Status replace_file_quickly(const fs::path& path, std::string_view text) {
  const fs::path temporary = temporary_beside(path);
  REKINDLE_TRY(Fd fd, open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  Status status = write_all(fd.get(), temporary, 0, bytes_of(text));
  if (status) status = fd.close(temporary);
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = forward_error(errno_error("cannot rename to", path));
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Result<bool> create_exclusively(const fs::path& path, std::string_view text, unsigned mode) {
  const fs::path temporary = temporary_beside(path);
  REKINDLE_CHECK(write_durable(temporary, text, mode));
  const int linked = ::link(temporary.c_str(), path.c_str());
  const int error = errno;
  struct stat info {};
  // A call that network storage has done twice finds its own file.
  const bool done_twice =
      linked != 0 && error == EEXIST && ::stat(temporary.c_str(), &info) == 0 && info.st_nlink == 2;
  ::unlink(temporary.c_str());
  if (linked != 0 && !done_twice) {
    if (error == EEXIST) return false;
    errno = error;
    return forward_error(errno_error("cannot create", path));
  }
  REKINDLE_CHECK(sync_directory(parent_of(path)));
  return true;
}

Result<std::vector<std::string>> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code code;
  fs::directory_iterator entry(directory, code);
  if (is_gone(code.value())) return names;
  for (; !code && entry != fs::directory_iterator(); entry.increment(code))
    names.push_back(entry->path().filename());
  if (code) return fail(str("cannot list ", directory.string(), ": ", code.message()));
  std::ranges::sort(names);
  return names;
}

bool await_file(const fs::path& path, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{50};
  for (auto waited = std::chrono::milliseconds(0);; waited += kPause) {
    if (::access(path.c_str(), F_OK) == 0) return true;
    if (waited >= patience || is_lasting(errno)) return false;  // waiting does not mend a path
    std::this_thread::sleep_for(kPause);
    std::ignore = names_in(parent_of(path));  // what a node remembers of a folder is renewed by listing it
  }
}

Status make_directories(const fs::path& path, unsigned mode) {
  if (path.empty()) return {};
  std::error_code code;
  if (fs::is_directory(path, code)) return {};
  if (const fs::path parent = parent_of(path); parent != path && !fs::is_directory(parent, code)) {
    REKINDLE_CHECK(make_directories(parent));
  }
  if (::mkdir(path.c_str(), mode) == 0) {
    std::ignore = sync_directory(parent_of(path));  // may be another user's
  } else if (errno != EEXIST) {
    return forward_error(errno_error("cannot create directory", path));
  }
  return {};
}

}  // namespace rekindle
