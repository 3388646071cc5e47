#include "base/copy_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle {

Status copy_open_file(int source, const FilePath& from, const FilePath& to, unsigned mode) {
  struct stat info {};
  if (::fstat(source, &info) != 0) return forward_error(errno_error("cannot stat", from));
  if (!S_ISREG(info.st_mode)) return fail(str(from.string(), " is not a file"));
  REKINDLE_TRY(Fd copy,
               open_file(to, O_WRONLY | O_CREAT | O_EXCL, mode != 0 ? mode : info.st_mode & S_IRWXU));
  std::vector<std::byte> piece(std::size_t{1} << 20);
  const auto size = static_cast<std::size_t>(info.st_size);
  for (std::size_t at = 0; at < size; at += piece.size()) {
    const auto part = std::span(piece).first(std::min(piece.size(), size - at));
    REKINDLE_CHECK(read_into(source, from, at, part));
    REKINDLE_CHECK(write_all(copy.get(), to, at, part));
  }
  REKINDLE_CHECK(sync_file(copy.get(), to));
  return copy.close(to);
}

Status copy_file(const FilePath& from, const FilePath& to, unsigned mode) {
  REKINDLE_TRY(const Fd source, open_file(from, O_RDONLY | O_NONBLOCK));
  return copy_open_file(source.get(), from, to, mode);
}

Status link_or_copy(const FilePath& from, const FilePath& to) {
  REKINDLE_TRY(const Fd source, open_file(from, O_RDONLY | O_NONBLOCK));
  REKINDLE_TRY(const Fd folder, open_file(to.parent_path(), O_RDONLY | O_DIRECTORY));
  // Links the file that was checked, even if its name now leads to another file. Source: linkat(2).
  const std::string opened = str("/proc/self/fd/", source.get());
  const std::string name = to.filename().string();
  if (::linkat(AT_FDCWD, opened.c_str(), folder.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  if (errno == EEXIST) return forward_error(errno_error("cannot create", to));
  return copy_open_file(source.get(), from, to, 0);
}

}  // namespace rekindle
