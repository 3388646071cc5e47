#include "app/kept_program.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "base/copy_file.hpp"
#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/process.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrograms[] = {"rekindle", "rekindle-control", "rekindle-board", "rekindle-trainer"};
constexpr const char* kTrainer = "rekindle-trainer";
// A file beside the programs: the name that the kept trainer program of another project had.
constexpr const char* kOwnTrainer = "own-trainer";

// A hard link is safe only if no other user can change the file.
bool is_safe_to_link(const fs::path& file) {
  const auto info = look_at(file).value_or(std::nullopt);
  return info && !others_own(*info) && !others_can_write(*info);
}

// System libraries are not copied: a kept libc would not fit the other libraries of another node. Those in
// lib/ beside the program are the project's, even if the Python package was installed below /usr/lib.
bool is_of_the_system(const fs::path& library) {
  for (const char* folder : {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"}) {
    if (library.string().starts_with(folder)) return true;
  }
  return false;
}

// Half a gigabyte, most of it LibTorch, so hard links are used where possible; an update makes new files.
Status keep_libraries(const fs::path& program, const FilePath& folder) {
  REKINDLE_TRY(const auto libraries, libraries_of(program));
  REKINDLE_CHECK(make_directories(folder, 0700));
  for (const auto& [name, path] : libraries) {
    if (is_of_the_system(path) && path.parent_path() != program.parent_path() / "lib") continue;
    REKINDLE_CHECK(is_safe_to_link(path) ? link_or_copy(path, folder / name)
                                         : copy_file(path, folder / name, S_IRWXU));
  }
  return sync_directory(folder);
}

// The script, the Python package with its library, and what the other programs load.
Status keep_script(const fs::path& script, const FilePath& folder) {
  REKINDLE_CHECK(keep_libraries(own_executable().parent_path() / "rekindle-control", folder / "lib"));
  REKINDLE_CHECK(make_directories(folder / kKeptScript, 0700));
  REKINDLE_CHECK(copy_file(script, folder / kKeptScript / script.filename().string(), S_IRUSR | S_IWUSR));
  const fs::path package = python_package();
  REKINDLE_CHECK(make_directories(folder / "python" / "rekindle", 0700));
  REKINDLE_TRY(const auto names, names_in(package));
  for (const std::string& name : names) {
    if (name.ends_with(".py") || name.ends_with(".so"))
      REKINDLE_CHECK(copy_file(package / name, folder / "python" / "rekindle" / name, S_IRUSR | S_IWUSR));
  }
  return sync_directory(folder / "python" / "rekindle");
}

// Into a new folder.
Status copy_programs(const OwnParts& own, const FilePath& folder) {
  const fs::path here = own_executable().parent_path();
  const bool own_trainer = !own.trainer.empty();
  REKINDLE_CHECK(make_directories(folder));
  for (const std::string name : kPrograms) {
    if (name == kTrainer && !own.script.empty()) continue;
    REKINDLE_CHECK(
        copy_file(own_trainer && name == kTrainer ? held_trainer() : here / name, folder / name, S_IRWXU));
  }
  if (own_trainer) REKINDLE_CHECK(replace_file(folder / kOwnTrainer, own.trainer.filename().string() + "\n"));
  if (!own.script.empty()) return keep_script(own.script, folder);
  // The copy of an own trainer: its libraries are where it was linked with them, not in this folder.
  return keep_libraries(own_trainer ? (folder / kTrainer).path() : here / kTrainer, folder / "lib");
}

// Whether a kept folder has this name in it: a run directory may have a bin/ of the user's.
bool is_part(const std::string& name) {
  constexpr std::string_view kOthers[] = {kOwnTrainer, kKeptScript, "lib", "python"};
  return std::ranges::find(kPrograms, name) != std::end(kPrograms) ||
         std::ranges::find(kOthers, name) != std::end(kOthers);
}

// Whether a run has kept programs. An error (ExitCode::kConfig) if a part is missing or cannot be executed,
// as after an interrupted removal, or in a copy without modes. rekindle-board may be missing: earlier builds
// kept none.
Result<bool> has_kept(const FilePath& kept) {
  if (!path_exists(kept)) return false;
  REKINDLE_TRY(const auto names, names_in(kept));
  if (std::ranges::none_of(names, is_part)) return false;
  const auto lacks = [&kept](const std::string& part) {
    return fail(ExitCode::kConfig,
                str(kept.string(), " is not complete: ", part, " is missing or cannot be executed"),
                "remove this folder, and the next start makes it again (in a job of Slurm: rekindle submit)");
  };
  REKINDLE_TRY(const auto script, look_strictly_at(kept / kKeptScript));
  for (const std::string name : {"rekindle", "rekindle-control", kTrainer}) {
    if (script && name == kTrainer) continue;
    REKINDLE_TRY(const auto program, look_strictly_at(kept / name));
    if (!program || !S_ISREG(program->st_mode) || (program->st_mode & S_IXUSR) == 0) return lacks(name);
  }
  for (const std::string name : {"lib", "python"}) {
    if (!script && name == "python") continue;
    REKINDLE_TRY(const auto folder, look_strictly_at(kept / name));
    if (!folder || !S_ISDIR(folder->st_mode)) return lacks(name);
  }
  return true;
}

// Whether the run has kept another build of a trainer program of another project.
bool has_another_trainer(const fs::path& run_dir, const fs::path& own_trainer) {
  const FilePath kept = run::Layout(run_dir).programs();
  return !own_trainer.empty() && path_exists(kept / kOwnTrainer) &&
         build_of(held_trainer()).value_or("") != build_of((kept / kTrainer).path()).value_or("");
}

}  // namespace

Result<FilePath> keep_program(const run::Layout& layout, const OwnParts& own) {
  const FilePath kept = layout.programs();
  REKINDLE_TRY(const bool is_there, has_kept(kept));
  if (is_there) return kept;
  // Those that a killed process left are not removed: another process of this run may be filling one now.
  const FilePath unfinished = temporary_beside(kept);
  Status done = copy_programs(own, unfinished);
  const bool all_kept = done.has_value();
  if (all_kept) done = rename_durably(unfinished, kept);
  if (done) return kept;
  std::ignore = remove_tree(unfinished);
  if (all_kept && has_kept(kept).value_or(false)) return kept;  // another process of this run was faster
  return forward_error(done.error());
}

bool has_kept_own_trainer() { return path_exists(program_path(kOwnTrainer)); }

std::optional<int> go_on_as_kept(const fs::path& run_dir, const std::vector<std::string>& arguments) {
  const run::Layout layout(run_dir);
  if (const Status trusted = run::check_trusted(layout); !trusted) return report(trusted.error());
  if (is_programs_folder(layout.programs())) return std::nullopt;
  const auto kept = has_kept(layout.programs());
  if (!kept) return report(kept.error());
  if (!*kept) return std::nullopt;
  const FilePath program = layout.programs() / kPrograms[0];
  const auto folder = open_file(layout.programs(), O_RDONLY | O_DIRECTORY);
  if (!folder) return report(folder.error());
  return report(become_program_in(*folder, program, arguments));
}

bool begins_with_changed_trainer(const fs::path& run_dir, const fs::path& own_trainer) {
  if (run_dir.empty() || !has_another_trainer(run_dir, own_trainer)) return false;
  const run::Layout layout(run_dir);
  const auto job = read_job(layout.config());
  // A job of Slurm that waits for its next attempt runs what it began with.
  if (!run::check_trusted(layout) || !job || job->launched_by != "local") return false;
  const auto saved = checkpoint::has_saved(layout.root());
  const auto holder = run::newest_term(layout);
  return saved && !*saved && holder && *holder && run::looks_gone(**holder) && run::supervisor_gone(**holder);
}

Status forget_kept_program(const run::Layout& layout) {
  const FilePath aside = temporary_beside(layout.programs());
  REKINDLE_CHECK(rename_durably(layout.programs(), aside));  // as a whole
  return remove_tree(aside);
}

std::optional<int> go_on_with_kept_trainer(const fs::path& run_dir, const fs::path& own_trainer,
                                           const std::vector<std::string>& arguments) {
  if (run_dir.empty()) return std::nullopt;
  const FilePath kept = run::Layout(run_dir).programs();
  if (!path_exists(kept / kOwnTrainer)) return std::nullopt;
  if (has_another_trainer(run_dir, own_trainer))
    warn(str(own_trainer.string(), " has changed since this run began: the run goes on with the copy in ",
             kept.string(), "; remove this folder between two attempts to go on with the changed program"));
  return go_on_as_kept(run_dir, arguments);
}

}  // namespace rekindle::app
