#include "app/script_copy.hpp"

#include <filesystem>

#include "app/kept_program.hpp"
#include "base/files.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

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

}  // namespace rekindle::app
