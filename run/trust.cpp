#include "run/trust.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"

namespace rekindle::run {
namespace {

Status check_secret(const FilePath& path, const char* mode) {
  REKINDLE_TRY(const auto info, look_at(path));
  if (!info || (info->st_mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return fail(ExitCode::kConfig, str(path.string(), " can be read by other users"),
              str("chmod ", mode, " ", path.string()));
}

// A file or a folder. Opening is the check (base/files.hpp).
Status check_entry(const FilePath& path) {
  REKINDLE_TRY(const auto info, look_at(path));
  if (!info) return {};
  if (S_ISDIR(info->st_mode)) REKINDLE_CHECK(open_file(path, O_RDONLY | O_DIRECTORY));
  if (S_ISLNK(info->st_mode) || S_ISREG(info->st_mode)) REKINDLE_CHECK(open_file(path, O_RDONLY));
  return {};  // what is neither is told by who needs it
}

// And all that is in it. To list a folder is to open it.
Status check_tree(const FilePath& path) {
  REKINDLE_TRY(const auto info, look_at(path));
  if (!info || !S_ISDIR(info->st_mode)) return check_entry(path);
  REKINDLE_TRY(const auto names, names_in(path));
  for (const std::string& name : names) REKINDLE_CHECK(check_tree(path / name));
  return {};
}

}  // namespace

Status check_trusted(const Layout& layout) {
  REKINDLE_TRY(const auto root, look_at(layout.root()));
  if (!root || !S_ISDIR(root->st_mode)) return {};  // a file in its place is told by who needs it
  for (const FilePath& entry :
       {layout.root(), layout.checkpoints(), layout.config(), layout.coordinator(), layout.stop_request(),
        layout.status(), layout.newest_checkpoint(), layout.initial_state(), layout.attempts(),
        layout.requeue(), layout.resubmit_script(), layout.job_script(), layout.metrics()})
    REKINDLE_CHECK(check_entry(entry));
  for (const FilePath& directory : {layout.programs(), layout.keys(), layout.terms(), layout.logs()})
    REKINDLE_CHECK(check_tree(directory));
  REKINDLE_CHECK(check_secret(layout.keys(), "700"));
  REKINDLE_TRY(const auto keys, names_in(layout.keys()));
  for (const std::string& key : keys) REKINDLE_CHECK(check_secret(layout.keys() / key, "600"));
  return {};
}

std::string parent_warning(const Layout& layout) {
  const FilePath parent = layout.root().parent_path();
  const auto info = look_at(parent).value_or(std::nullopt);
  if (!info) return "";
  // In a sticky directory (/tmp) only its owner and that of the file may rename it. Source: inode(7),
  // S_ISVTX.
  if (!others_own(*info) && (!others_can_write(*info) || (info->st_mode & S_ISVTX) != 0)) return "";
  return str(
      "other users may change ", parent.string(),
      ", so they can move the run directory away: the run could not save then. A directory that only you "
      "can change is safer");
}

}  // namespace rekindle::run
