#include "run/privacy.hpp"

#include <sys/stat.h>

#include "base/text.hpp"

namespace rekindle::run {
namespace {

Status check(const fs::path& path, mode_t forbidden, const char* who, const char* mend) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || (info.st_mode & forbidden) == 0) return {};
  return fail(ExitCode::kConfig, str(path.string(), " is open to ", who), str(mend, " ", path.string()));
}

}  // namespace

Status check_private(const Layout& layout) {
  REKINDLE_CHECK(check(layout.root(), S_IRWXO, "other users", "chmod o-rwx"));
  REKINDLE_CHECK(check(layout.keys(), S_IRWXG | S_IRWXO, "others", "chmod 700"));
  for (const fs::path& file : {layout.private_key(), layout.keys() / "run.pem"})
    REKINDLE_CHECK(check(file, S_IRWXG | S_IRWXO, "others", "chmod 600"));
  return {};
}

}  // namespace rekindle::run
