#include "base/append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/copy_file.hpp"

namespace rekindle {
namespace {

constexpr unsigned kPermissions = 0777;

// Other files, and files that cannot be copied, are left to open_file(), which says what is wrong.
Status give_own_copy(const FilePath& path) {
  const auto seen = look_at(path).value_or(std::nullopt);
  if (path.trust() != Trust::kOwn || !seen || !S_ISREG(seen->st_mode) || seen->st_nlink < 2) return {};
  // This checks owner and mode of what is opened.
  const auto linked = open_file(path, O_RDONLY);
  struct stat info {};
  if (!linked || ::fstat(linked->get(), &info) != 0 || info.st_uid != ::geteuid()) return {};
  const FilePath copy = temporary_beside(path);
  Status done = copy_open_file(linked->get(), path, copy, info.st_mode & kPermissions);
  if (done) done = rename_durably(copy, path);
  if (!done) std::ignore = remove_file(copy);
  return done;
}

}  // namespace

Result<Fd> open_to_append(const FilePath& path, int access) {
  REKINDLE_CHECK(give_own_copy(path));
  return open_file(path, access | O_CREAT | O_APPEND);
}

}  // namespace rekindle
