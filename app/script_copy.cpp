#include "app/script_copy.hpp"

#include <cstddef>
#include <string>

#include "app/kept_program.hpp"
#include "app/report.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostOfAScript = std::size_t{16} << 20;

}  // namespace

bool same_text(const fs::path& a, const fs::path& b) {
  return read_text(a, kMostOfAScript).value_or("") == read_text(b, kMostOfAScript).value_or("");
}

void warn_of_kept_script(const fs::path& script, const fs::path& kept) {
  if (!is_file(script) || !is_file(kept) || same_text(script, kept)) return;
  warn(str(script.string(), " has changed since this run began: the run goes on with the copy in ",
           kept.parent_path().string(),
           "; remove the folder above it between two attempts to go on with the changed script"));
}

FilePath copy_of_script(const protocol::Job& job, const run::Layout& layout) {
  const fs::path named = job.task.script;
  const bool kept = named.parent_path().parent_path().filename() == layout.programs().filename();  // by Slurm
  return (kept ? layout.programs() / kKeptScript : layout.script()) / named.filename().string();
}

void find_script_here(protocol::Job& job, const run::Layout& layout) {
  if (!is_script(job) || is_file(job.task.script)) return;
  const FilePath copy = copy_of_script(job, layout);
  if (is_file(copy.path())) job.task.script = copy.path();
}

Result<fs::path> copy_for_attempt(const fs::path& script, const run::Layout& layout) {
  // A script elsewhere in the run directory is the user's: copy_of_script() looks for its copy, too.
  if (script.string().starts_with(layout.programs().string() + "/")) return script;
  REKINDLE_TRY(const std::string text, read_text(script, kMostOfAScript));
  REKINDLE_CHECK(make_directories(layout.script(), 0700));
  const FilePath copy = layout.script() / script.filename().string();
  REKINDLE_CHECK(replace_file(copy, text));
  return copy.path();
}

}  // namespace rekindle::app
