// Files that survive a crash: every return value is checked, close() included, and names change only
// by rename after the bytes are durable.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  // Closes and says whether that failed (network file systems report lost writes here).
  Status close(const std::filesystem::path& name);

 private:
  int fd_ = -1;
};

// As open(2), also when a signal comes; O_CLOEXEC is added.
Result<Fd> open_file(const std::filesystem::path& path, int flags, unsigned mode = 0);
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path);
Result<std::string> read_text(const std::filesystem::path& path);
Result<std::vector<std::byte>> read_range(const std::filesystem::path& path, std::size_t offset,
                                          std::size_t bytes);
// Fills `out` from `offset`; a short file is an error.
Status read_into(int fd, const std::filesystem::path& path, std::size_t offset, std::span<std::byte> out);
Status write_all(int fd, const std::filesystem::path& path, std::size_t offset,
                 std::span<const std::byte> bytes);

Status sync_file(int fd, const std::filesystem::path& path);
Status sync_directory(const std::filesystem::path& directory);
// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder.
Status replace_file(const std::filesystem::path& path, std::string_view text, unsigned mode = 0644);
// The same for readers, without any fsync: after a crash the old, the new or no text may be there.
Status replace_file_quickly(const std::filesystem::path& path, std::string_view text);
// rename + fsync of the folder; ENOENT after a retried NFS rename that had succeeded is success.
Status rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
// Creates `path` with `text` in it or fails: false if it exists already. Never half-written (link()).
Result<bool> create_exclusively(const std::filesystem::path& path, std::string_view text,
                                unsigned mode = 0644);
// The name of an unfinished file that will be `path`: no other process of any node uses it.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// Whether an errno says that a file is not there (any more). Network storage lists names for a while that
// another node has removed, and answers ESTALE when they are used.
inline bool is_gone(int error) { return error == ENOENT || error == ESTALE; }
// What is in a directory, in lexical order; nothing if there is no such directory.
Result<std::vector<std::string>> names_in(const std::filesystem::path& directory);
// Waits for a file that another node has made: network storage shows new names late. False if it is not seen.
bool await_file(const std::filesystem::path& path, std::chrono::milliseconds patience);
inline constexpr std::chrono::milliseconds kNamesAreSeenWithin{20000};

// Durable names, where the folder above may be opened.
Status make_directories(const std::filesystem::path& path, unsigned mode = 0755);

// "what path: strerror", for errno right after a failed call
Error errno_error(std::string_view what, const std::filesystem::path& path);

}  // namespace rekindle
