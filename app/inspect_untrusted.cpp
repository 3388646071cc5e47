#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "app/inspect.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "run/layout.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 100000;
constexpr int kMostFolders = 16;  // nesting depth

// Reasons not to trust an entry; empty: the metadata shows none.
std::vector<std::string> findings_of(const struct stat& info, const std::string& name) {
  std::vector<std::string> findings;
  if (S_ISLNK(info.st_mode)) return {"a symbolic link"};
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) findings.emplace_back("a pipe, a socket or a device");
  if (others_own(info)) findings.push_back(str("belongs to user number ", info.st_uid));
  if (others_can_write(info)) findings.emplace_back("other users can change it");
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0 && !S_ISDIR(info.st_mode))
    findings.emplace_back("a set-user-id program");
  if (S_ISREG(info.st_mode) && info.st_nlink > 1) findings.emplace_back("has a second name elsewhere");
  if (name != printable(name)) findings.emplace_back("its name holds control characters");
  return findings;
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
          std::pair{layout_.script(), "a script that join and evaluate execute"},
          std::pair{layout_.job_script(), "a script for Slurm"},
          std::pair{layout_.resubmit_script(), "a script that is submitted to Slurm"}}) {
      if (path_exists(file))
        report_entry(file,
                     str("would be executed: ", what, ". Remove it to continue with your own programs"));
    }
    show_environment();
    if (path_exists(layout_.keys()))
      say(str(layout_.keys().string(),
              ": a key pair that other users may have copied; the next attempt makes a new one"));
    return reported_;
  }

 private:
  void report_entry(const FilePath& path, const std::string& what) {
    ++reported_;
    say(str(path.string(), ": ", what));
  }

  // The environment that the next attempt would set. Only variables of numeric libraries are set, so these
  // lines are not counted.
  void show_environment() {
    if (!path_exists(layout_.config())) return;
    const auto job = read_job(layout_.config());
    if (!job) return report_entry(layout_.config(), job.error().what);
    if (is_script(*job))
      report_entry(layout_.config(), str("names programs that join, evaluate and audit execute: ",
                                         job->task.python, " with ", job->task.script));
    if (!job->container.empty())
      report_entry(layout_.config(),
                   str("names an image in which join, evaluate and audit work: ", job->container, ", with ",
                       job->container_runtime, " and the mounts ",
                       job->container_mounts.empty() ? "none" : job->container_mounts));
    for (const std::string& variable : job->environment)
      say(str(layout_.config().string(), ": sets in the trainers' environment: ", variable));
  }

  Status add(const FilePath& path, const struct stat& info, int depth) {
    if (++entries_ > kMostEntries)
      return fail(ExitCode::kConfig, str("more than ", kMostEntries, " entries"));
    for (const std::string& finding : findings_of(info, path.filename().string()))
      report_entry(path, finding);
    if (!S_ISDIR(info.st_mode)) return {};
    if (depth == kMostFolders)
      return fail(ExitCode::kConfig, str(path.string(), ": folders are nested too deeply"));
    REKINDLE_TRY(const auto names, names_in(path));
    for (const std::string& name : names) {
      REKINDLE_TRY(const auto entry, look_at(path / name));
      if (entry) REKINDLE_CHECK(add(path / name, *entry, depth + 1));
    }
    return {};
  }

  const run::Layout layout_;
  std::size_t entries_ = 0, reported_ = 0;
};

}  // namespace

Status inspect_untrusted(const fs::path& path) {
  REKINDLE_TRY(const std::size_t count, Look(path).all());
  if (count == 0) {
    say("nothing here would be executed or followed, and no other user can change it. To check the data: "
        "rekindle inspect --verify");
    return {};
  }
  return fail(ExitCode::kConfig,
              str(count, count == 1 ? " thing" : " things", " in ", path.string(), " to check before use"),
              "see docs/security.md, \"A directory from somebody else\"");
}

}  // namespace rekindle::app
