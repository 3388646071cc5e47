#include "run/trust.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "base/way.hpp"
#include "run/records.hpp"

namespace rekindle::run {
namespace {

bool others_can_read(const struct stat& info) {
  return !S_ISLNK(info.st_mode) && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

// `keys`: the folder of the keys.
std::string remedy_for_keys(const FilePath& keys) { return str("chmod -R go-rwx ", keys.string()); }

Status check_secret(const FilePath& path, const FilePath& keys) {
  REKINDLE_TRY(const auto info, look_at(path));
  if (!info || !others_can_read(*info)) return {};
  return fail(ExitCode::kConfig, str(path.string(), " can be read by other users"), remedy_for_keys(keys));
}

// Whether other users can read a key. The run directory may be one that check_entry() refuses.
bool has_open_keys(const Layout& layout) {
  const FilePath keys = Layout(layout.root().path(), Trust::kForeign).keys();
  const auto is_open = [](const FilePath& path) {
    const auto info = look_at(path).value_or(std::nullopt);
    return info && others_can_read(*info);
  };
  const auto names = names_in(keys).value_or(std::vector<std::string>());
  return is_open(keys) ||
         std::any_of(names.begin(), names.end(), [&](const auto& name) { return is_open(keys / name); });
}

// Whether the folder looks as a volume with fsGroup, to whose files the kubelet adds these bits at each
// mount. Source: Kubernetes, pkg/volume/volume_linux.go.
bool is_given_to_a_group(const struct stat& folder) {
  constexpr mode_t kAdded = S_ISGID | S_IRWXG;
  return (folder.st_mode & kAdded) == kAdded && !environment_variable("KUBERNETES_SERVICE_HOST").empty();
}

// Checks a file or a folder. Opening is the check (base/files.hpp).
Status check_entry(const FilePath& path) {
  REKINDLE_TRY(const auto info, look_at(path));
  if (!info) return {};
  if (S_ISDIR(info->st_mode)) REKINDLE_CHECK(open_file(path, O_RDONLY | O_DIRECTORY));
  if (S_ISLNK(info->st_mode) || S_ISREG(info->st_mode)) REKINDLE_CHECK(open_file(path, O_RDONLY));
  return {};  // other kinds are reported by the code that needs the entry
}

// Checks a folder and its content, of which only names that end with `end`. Listing a folder opens it, which
// is the check.
Status check_tree(const FilePath& path, std::string_view end = "") {
  REKINDLE_TRY(const auto info, look_at(path));
  if (!info || !S_ISDIR(info->st_mode)) return check_entry(path);
  REKINDLE_TRY(const auto names, names_in(path));
  for (const std::string& name : names)
    if (name.ends_with(end)) REKINDLE_CHECK(check_tree(path / name, end));
  return {};
}

// If the modes of the root are wrong, those of all files most often are: one line mends them all.
Status check_root(const Layout& layout, const struct stat& info) {
  Status checked = check_entry(layout.root());
  if (checked || checked.error().code != ExitCode::kConfig || others_own(info) || !others_can_write(info))
    return checked;
  Error error = std::move(checked.error());
  if (has_open_keys(layout)) error.hint += str(" && ", remedy_for_keys(layout.keys()));
  if (is_given_to_a_group(info))
    error.hint += " (and fsGroupChangePolicy: OnRootMismatch in the pod, or the next mount undoes it)";
  return forward_error(std::move(error));
}

}  // namespace

Status check_trusted(const Layout& layout) {
  REKINDLE_TRY(const auto root, look_at(layout.root()));
  if (!root || !S_ISDIR(root->st_mode))
    return {};  // a file in its place is reported by the code that needs the directory
  REKINDLE_CHECK(check_root(layout, *root));
  for (const FilePath& entry :
       {layout.checkpoints(), layout.config(), layout.coordinator(), layout.stop_request(), layout.status(),
        layout.newest_checkpoint(), layout.initial_state(), layout.attempts(), layout.requeue(),
        layout.resubmit_script(), layout.job_script(), layout.metrics(), layout.events()})
    REKINDLE_CHECK(check_entry(entry));
  for (const FilePath& directory : {layout.programs(), layout.keys(), layout.terms()})
    REKINDLE_CHECK(check_tree(directory));
  // Slurm puts a job's output here, too, which the group may change if the umask of the person who submitted
  // it says so.
  REKINDLE_CHECK(check_tree(layout.logs(), ".log"));
  REKINDLE_CHECK(check_secret(layout.keys(), layout.keys()));
  REKINDLE_TRY(const auto keys, names_in(layout.keys()));
  for (const std::string& key : keys) REKINDLE_CHECK(check_secret(layout.keys() / key, layout.keys()));
  return check_records(layout);
}

Result<std::uint64_t> inode_of(const Layout& layout) {
  REKINDLE_TRY(const Fd root, open_file(layout.root(), O_RDONLY | O_DIRECTORY));
  struct stat info {};
  if (::fstat(root.get(), &info) != 0) return forward_error(errno_error("cannot look at", layout.root()));
  return info.st_ino;
}

std::string exchange_warning(const Layout& layout) {
  std::string names;
  for (const fs::path& name : exchangeable_on_the_way(layout.root().path()))
    names += str(names.empty() ? "" : " and ", name.string());
  if (names.empty()) return "";
  return str("other users may change ", names,
             ", so they can put another directory in the place of the run directory: the run could not save "
             "then. A directory below folders that only you can change is safer");
}

}  // namespace rekindle::run
