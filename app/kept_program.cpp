#include "app/kept_program.hpp"

#include <sys/stat.h>

#include "base/copy_file.hpp"
#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/process.hpp"
#include "base/trust.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrograms[] = {"rekindle", "rekindle-control", "rekindle-trainer"};

// A hard link is safe only if no other user can change the file.
bool is_safe_to_link(const fs::path& file) {
  const auto info = look_at(file).value_or(std::nullopt);
  return info && !others_own(*info) && !others_can_write(*info);
}

// System libraries are not copied: a kept libc would not fit the other libraries of another node.
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
    if (is_of_the_system(path)) continue;
    REKINDLE_CHECK(is_safe_to_link(path) ? link_or_copy(path, folder / name)
                                         : copy_file(path, folder / name, S_IRWXU));
  }
  return sync_directory(folder);
}

}  // namespace

Result<FilePath> keep_program(const run::Layout& layout) {
  const FilePath kept = layout.programs();
  const fs::path here = own_executable().parent_path();
  if (path_exists(kept / kPrograms[0])) return kept;
  const FilePath unfinished = temporary_beside(kept);
  REKINDLE_CHECK(make_directories(unfinished));
  for (const char* name : kPrograms) REKINDLE_CHECK(copy_file(here / name, unfinished / name, S_IRWXU));
  Status done = keep_libraries(here / "rekindle-trainer", unfinished / "lib");
  const bool all_kept = done.has_value();
  if (all_kept) done = rename_durably(unfinished, kept);
  if (done) return kept;
  std::ignore = remove_tree(unfinished);
  if (all_kept && path_exists(kept / kPrograms[0])) return kept;  // another process of this run was faster
  return forward_error(done.error());
}

}  // namespace rekindle::app
