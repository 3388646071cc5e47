#include "base/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

// Counts only up to `enough`, because a file may have millions of holes. Source: lseek(2), SEEK_DATA.
std::uint64_t count_stored(int fd, std::uint64_t size, std::uint64_t enough) {
  std::uint64_t stored = 0;
  for (off_t at = 0; static_cast<std::uint64_t>(at) < size && stored < enough;) {
    const off_t begin = ::lseek(fd, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) return stored;  // a hole up to the end
    const off_t end = begin < 0 ? -1 : ::lseek(fd, begin, SEEK_HOLE);
    if (end <= begin) return size;  // this storage does not report holes
    stored += static_cast<std::uint64_t>(end - begin);
    at = end;
  }
  return stored;
}

}  // namespace

Result<InputFile> open_input(const FilePath& path) {
  InputFile file;
  file.path = path;
  auto fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) {
    return forward_error(Error{ExitCode::kConfig, std::move(fd.error().what),
                               "give the path of a file that can be read", fd.error().kind});
  }
  file.fd = std::move(*fd);
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if (S_ISDIR(info.st_mode))
    return fail(ExitCode::kConfig, str(path.string(), " is a directory"), "give a file");
  if (!S_ISREG(info.st_mode))
    return fail(ExitCode::kConfig, str(path.string(), " is not a regular file"),
                "give a file, and no pipe, device or directory");
  file.owner = info.st_uid;
  file.size = static_cast<std::uint64_t>(info.st_size);
  // A higher count would not change the result of check_holes().
  file.stored = std::min(file.size, count_stored(file.fd.get(), file.size, file.size / kMostExpansion + 1));
  return file;
}

Status check_holes(const InputFile& file) {
  if (file.size <= most_expanded(file.stored)) return {};
  return fail(ExitCode::kConfig,
              str(file.path.string(), " has ", format_bytes(file.size), ", but only ",
                  format_bytes(file.stored), " of it were written"),
              "the copy is incomplete; get the file again");
}

}  // namespace rekindle
