// Replacements of libc's functions. For all libraries of the program, including libstdc++'s <filesystem>, the
// program's own definitions come before libc's.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "shim.hpp"

// The function of this name in the next library.
#define NEXT(name) static const auto next = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))

using rekindle::checkpoint::Shim;

namespace {

// Whether a transfer is refused because the file is open with O_DIRECT.
bool refuses_transfer(Shim* shim, int fd) {
  return shim != nullptr && shim->refuses_direct(Shim::NoDirect::kAtTransfer, fd, ::fcntl(fd, F_GETFL));
}

// The third argument of open(), which exists only if open() may create a file.
mode_t mode_of(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  NEXT(open);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  Shim* shim = Shim::active();
  if (shim == nullptr) return next(path, flags, mode);
  return shim->open(AT_FDCWD, path, flags, [&] { return next(path, flags, mode); });
}

int openat(int directory, const char* path, int flags, ...) {
  NEXT(openat);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  Shim* shim = Shim::active();
  if (shim == nullptr) return next(directory, path, flags, mode);
  return shim->open(directory, path, flags, [&] { return next(directory, path, flags, mode); });
}

int close(int fd) {
  NEXT(close);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(fd) : shim->close(fd, [&] { return next(fd); });
}

int fcntl(int fd, int command, ...) {
  NEXT(fcntl);
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);  // of any type, as in libc
  va_end(rest);
  Shim* shim = Shim::active();
  const int flags = command == F_SETFL ? static_cast<int>(reinterpret_cast<std::intptr_t>(argument)) : 0;
  if (shim != nullptr && shim->refuses_direct(Shim::NoDirect::kAtSwitch, fd, flags)) return -1;
  return next(fd, command, argument);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  NEXT(pwrite);
  Shim* shim = Shim::active();
  if (refuses_transfer(shim, fd)) return -1;
  if (shim == nullptr) return next(fd, bytes, size, offset);
  return shim->transfer(Shim::Call::kWrite, fd, static_cast<std::uint64_t>(offset), const_cast<void*>(bytes),
                        size, [&](std::size_t part) { return next(fd, bytes, part, offset); });
}

ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  NEXT(pread);
  Shim* shim = Shim::active();
  if (refuses_transfer(shim, fd)) return -1;
  if (shim == nullptr) return next(fd, bytes, size, offset);
  return shim->transfer(Shim::Call::kRead, fd, static_cast<std::uint64_t>(offset), bytes, size,
                        [&](std::size_t part) { return next(fd, bytes, part, offset); });
}

int fsync(int fd) {
  NEXT(fsync);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(fd) : shim->sync(fd, [&] { return next(fd); });
}

int fdatasync(int fd) {
  NEXT(fdatasync);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(fd) : shim->sync(fd, [&] { return next(fd); });
}

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(from, to)
                         : shim->rename(AT_FDCWD, from, AT_FDCWD, to, [&] { return next(from, to); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  NEXT(renameat);
  const auto real = [&] { return next(from_directory, from, to_directory, to); };
  Shim* shim = Shim::active();
  return shim == nullptr ? real() : shim->rename(from_directory, from, to_directory, to, real);
}

int link(const char* from, const char* to) noexcept {
  NEXT(link);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(from, to)
                         : shim->link(AT_FDCWD, from, AT_FDCWD, to, [&] { return next(from, to); });
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  NEXT(linkat);
  const auto real = [&] { return next(from_directory, from, to_directory, to, flags); };
  Shim* shim = Shim::active();
  return shim == nullptr ? real() : shim->link(from_directory, from, to_directory, to, real);
}

int mkdir(const char* path, mode_t mode) noexcept {
  NEXT(mkdir);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path, mode)
                         : shim->make_directory(AT_FDCWD, path, [&] { return next(path, mode); });
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  NEXT(mkdirat);
  const auto real = [&] { return next(directory, path, mode); };
  Shim* shim = Shim::active();
  return shim == nullptr ? real() : shim->make_directory(directory, path, real);
}

int unlink(const char* path) noexcept {
  NEXT(unlink);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path) : shim->remove(AT_FDCWD, path, [&] { return next(path); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  NEXT(unlinkat);
  Shim* shim = Shim::active();
  if (shim == nullptr) return next(directory, path, flags);
  return shim->remove(directory, path, [&] { return next(directory, path, flags); });
}

int rmdir(const char* path) noexcept {
  NEXT(rmdir);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path) : shim->remove(AT_FDCWD, path, [&] { return next(path); });
}

int remove(const char* path) noexcept {
  NEXT(remove);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path) : shim->remove(AT_FDCWD, path, [&] { return next(path); });
}

int stat(const char* path, struct stat* info) noexcept {
  NEXT(stat);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path, info) : shim->look(AT_FDCWD, path, [&] { return next(path, info); });
}

int lstat(const char* path, struct stat* info) noexcept {
  NEXT(lstat);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path, info) : shim->look(AT_FDCWD, path, [&] { return next(path, info); });
}

int fstatat(int directory, const char* path, struct stat* info, int flags) noexcept {
  NEXT(fstatat);
  const auto real = [&] { return next(directory, path, info, flags); };
  Shim* shim = Shim::active();
  return shim == nullptr ? real() : shim->look(directory, path, real);
}

int fstat(int fd, struct stat* info) noexcept {
  NEXT(fstat);
  Shim* shim = Shim::active();
  return shim != nullptr && shim->refuses_look(fd) ? -1 : next(fd, info);
}

int access(const char* path, int mode) noexcept {
  NEXT(access);
  Shim* shim = Shim::active();
  return shim == nullptr ? next(path, mode) : shim->look(AT_FDCWD, path, [&] { return next(path, mode); });
}

DIR* fdopendir(int fd) {
  NEXT(fdopendir);
  Shim* shim = Shim::active();
  return shim != nullptr && shim->refuses_look(fd) ? nullptr : next(fd);
}

dirent* readdir(DIR* directory) {
  NEXT(readdir);
  Shim* shim = Shim::active();
  return shim != nullptr && shim->refuses_look(::dirfd(directory)) ? nullptr : next(directory);
}

// libc closes the descriptor without a call of close() that the shim could intercept.
int closedir(DIR* directory) {
  NEXT(closedir);
  if (Shim* shim = Shim::active(); shim != nullptr) shim->forget(::dirfd(directory));
  return next(directory);
}

}  // extern "C"
