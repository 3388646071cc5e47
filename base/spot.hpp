// How base/ reaches a file: the directories on the way are opened one after the other, and each is checked.
// Internal to base/.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "base/file_path.hpp"
#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

// Trainers receive many signals, and on network file systems signals interrupt more calls than read and
// write.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// A name in a directory that stays open while the name is used.
struct Spot {
  Fd folder;  // empty: the name is a complete path
  std::string name;
  int at() const { return folder ? folder.get() : AT_FDCWD; }
};

// Opens the path from the root downwards, so that no directory on the way can be replaced with a link.
Result<Spot> find(const FilePath& path);
// As open_file(), of a name that was found.
Result<Fd> open_at(const Spot& spot, const FilePath& path, int flags, unsigned mode);
Status check_regular(const struct stat& info, const FilePath& path);
Status sync_folder_of(const Spot& spot, const FilePath& path);

}  // namespace rekindle
