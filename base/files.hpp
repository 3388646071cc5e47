// Files that survive a crash: every return value is checked, close() included, and names change only by
// rename after the bytes are durable. The FilePath (base/file_path.hpp) determines whether links are followed
// and which users' files are accepted.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();
  // Closes; returns whether that failed (network file systems report lost writes here).
  Status close(const FilePath& name);

 private:
  int fd_ = -1;
};

// As open(2), and also correct if a signal arrives; O_CLOEXEC is added. Below a root: only a regular file or,
// with O_DIRECTORY, a directory; a file with a second name (a hard link) is not opened for writing. `mode`:
// of a new file; 0 means 0644 for a path that a person named and 0600 below a root.
Result<Fd> open_file(const FilePath& path, int flags, unsigned mode = 0);
Result<std::vector<std::byte>> read_file(const FilePath& path);
Result<std::string> read_text(const FilePath& path);
// The same, and an error (ExitCode::kConfig) if the file is larger.
Result<std::string> read_text(const FilePath& path, std::size_t most_bytes);
Result<std::vector<std::byte>> read_range(const FilePath& path, std::size_t offset, std::size_t bytes);
// Fills `out` from `offset`; a short file is an error.
Status read_into(int fd, const FilePath& path, std::size_t offset, std::span<std::byte> out);
Status write_all(int fd, const FilePath& path, std::size_t offset, std::span<const std::byte> bytes);

Status sync_file(int fd, const FilePath& path);
Status sync_directory(const FilePath& directory);
// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder. `mode` as
// in open_file(); 0: that of this user's file that is replaced, so that a file that is shared stays so.
Status replace_file(const FilePath& path, std::string_view text, unsigned mode = 0);
// The same without fsync: after a crash the file may have the old text, the new text or no text.
Status replace_file_quickly(const FilePath& path, std::string_view text);
// rename + fsync of the folder; ENOENT after a retried NFS rename that had succeeded is success.
Status rename_durably(const FilePath& from, const FilePath& to);
// Creates `path` with `text`. False if `path` exists already. The file is never incomplete (link()).
// Storage without hard links is an error that says so.
Result<bool> create_exclusively(const FilePath& path, std::string_view text, unsigned mode = 0);
// A temporary name for a file that will be renamed to `path`: different at each call, on any node.
FilePath temporary_beside(const FilePath& path);

// Whether an errno means that a file does not exist (any more). Network storage may still list names that
// another node has removed, and returns ESTALE when they are used.
inline bool is_gone(int error) { return error == ENOENT || error == ESTALE; }
// The stat of a name; nullopt if it does not exist, or if a part of the path is a file. Below a root, the
// stat of a link is that of the link, not of its target.
Result<std::optional<struct stat>> look_at(const FilePath& path);
// The same, but ESTALE is an error, because the file may be there: for callers that delete what belongs to a
// missing file.
Result<std::optional<struct stat>> look_strictly_at(const FilePath& path);
// Also false if the answer is unknown. (Not named exists() and is_directory(): with an fs::path argument, the
// compiler would choose the standard library's functions, which throw.)
bool path_exists(const FilePath& path);
bool is_file(const FilePath& path);
bool is_folder(const FilePath& path);
// The names in a directory, in lexical order; empty if the directory does not exist.
Result<std::vector<std::string>> names_in(const FilePath& directory);
// Waits for a file that another node has made: network storage shows new names late. False if it is not
// found.
bool await_file(const FilePath& path, std::chrono::milliseconds patience);
inline constexpr std::chrono::milliseconds kNamesAreSeenWithin{20000};

// Makes durable directories; fsyncs the parent folder if it can be opened. `mode` 0: 0755 for a path that a
// person named, 0700 below a root.
Status make_directories(const FilePath& path, unsigned mode = 0);
// As mkdir(2), but an existing directory is success.
Status make_directory(const FilePath& path, unsigned mode = 0);
// Success if the file does not exist.
Status remove_file(const FilePath& path);
// Removes a directory with its content, or one file. Links are removed, never followed.
Status remove_tree(const FilePath& path);
Status shorten_file(const FilePath& path, std::size_t bytes);

// "what path: strerror", for errno right after a failed call
Error errno_error(std::string_view what, const FilePath& path);

}  // namespace rekindle
