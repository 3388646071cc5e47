#include "base/guarded_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/spot.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"

namespace rekindle {
namespace {

// As access(2), with the effective ids.
int try_access(const FilePath& file, int wanted) {
  const std::string path = file.string();
  // Some containers refuse the system call for effective ids.
  if (::getuid() == ::geteuid()) return ::access(path.c_str(), wanted);
  return ::faccessat(AT_FDCWD, path.c_str(), wanted, AT_EACCESS);
}

}  // namespace

Result<Fd> open_guarded(const FilePath& path, int flags) {
  REKINDLE_TRY(Fd fd, open_file(path, flags | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  REKINDLE_CHECK(check_regular(info, path));
  REKINDLE_CHECK(check_owner(fd.get(), info, path));
  if (info.st_nlink == 1) return fd;
  return fail(ExitCode::kConfig, str(path.string(), " has a second name (a hard link)"),
              "replace it with a copy");
}

bool is_writable(const FilePath& folder) { return try_access(folder, W_OK) == 0; }

bool is_denied(const FilePath& file) { return try_access(file, R_OK) != 0 && errno == EACCES; }

}  // namespace rekindle
