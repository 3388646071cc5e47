#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "app/inspect.hpp"
#include "app/report.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "run/layout.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 100000;
constexpr int kMostFolders = 16;  // one in the other

// Why an entry is not to be trusted; empty: for no reason that can be seen from outside.
std::vector<std::string> doubts_about(const struct stat& info, const std::string& name) {
  std::vector<std::string> doubts;
  if (S_ISLNK(info.st_mode)) return {"a symbolic link"};
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) doubts.emplace_back("a pipe, a socket or a device");
  if (others_own(info)) doubts.push_back(str("belongs to user number ", info.st_uid));
  if (others_can_write(info)) doubts.emplace_back("other users can change it");
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0 && !S_ISDIR(info.st_mode))
    doubts.emplace_back("a set-user-id program");
  if (S_ISREG(info.st_mode) && info.st_nlink > 1) doubts.emplace_back("has a second name elsewhere");
  if (name != printable(name)) doubts.emplace_back("its name holds control characters");
  return doubts;
}

class Look {
 public:
  explicit Look(const fs::path& path) : layout_(path, Trust::kForeign) {}

  Result<std::size_t> all() {
    REKINDLE_TRY(const auto root, look_at(layout_.root()));
    if (!root) return fail(ExitCode::kConfig, str("there is no ", layout_.root().string()));
    REKINDLE_CHECK(add(layout_.root(), *root, 0));
    for (const auto& [file, what] :
         {std::pair{layout_.programs(), "its programs are executed by join, slurm and submit"},
          std::pair{layout_.job_script(), "a script for Slurm"},
          std::pair{layout_.resubmit_script(), "a script that is submitted to Slurm"}}) {
      if (path_exists(file))
        tell(file, str("would be executed: ", what, ". Remove it to go on with your own programs"));
    }
    if (path_exists(layout_.keys()))
      say(str(layout_.keys().string(),
              ": a key pair that others may know; the next attempt makes a new one"));
    return doubtful_;
  }

 private:
  void tell(const FilePath& path, const std::string& what) {
    ++doubtful_;
    say(str(path.string(), ": ", what));
  }

  Status add(const FilePath& path, const struct stat& info, int depth) {
    if (++entries_ > kMostEntries)
      return fail(ExitCode::kConfig, str("more than ", kMostEntries, " entries"));
    for (const std::string& doubt : doubts_about(info, path.filename().string())) tell(path, doubt);
    if (!S_ISDIR(info.st_mode)) return {};
    if (depth == kMostFolders)
      return fail(ExitCode::kConfig, str(path.string(), ": folders too deep in each other"));
    REKINDLE_TRY(const auto names, names_in(path));
    for (const std::string& name : names) {
      REKINDLE_TRY(const auto entry, look_at(path / name));
      if (entry) REKINDLE_CHECK(add(path / name, *entry, depth + 1));
    }
    return {};
  }

  const run::Layout layout_;
  std::size_t entries_ = 0, doubtful_ = 0;
};

}  // namespace

Status inspect_untrusted(const fs::path& path) {
  REKINDLE_TRY(const std::size_t doubtful, Look(path).all());
  if (doubtful == 0) {
    say("nothing here would be executed or followed, and no other user can change it. Whether the data are "
        "right is "
        "another question: rekindle inspect --verify");
    return {};
  }
  return fail(ExitCode::kConfig,
              str(doubtful, doubtful == 1 ? " thing" : " things", " in ", path.string(),
                  " to look at before it is used"),
              "see docs/security.md, \"A directory from somebody else\"");
}

}  // namespace rekindle::app
