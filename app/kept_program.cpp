#include "app/kept_program.hpp"

#include <fcntl.h>

#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrograms[] = {"rekindle", "rekindle-control", "rekindle-trainer"};

Status copy_durably(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::copy_file(from, to, code);
  if (code)
    return fail(ExitCode::kConfig,
                str("cannot copy ", from.string(), " to ", to.string(), ": ", code.message()));
  REKINDLE_TRY(const Fd file, open_file(to, O_RDONLY));
  return sync_file(file.get(), to);
}

// What a node has by itself is left there: a kept libc would not fit another node's.
bool is_of_the_system(const fs::path& library) {
  for (const char* folder : {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"}) {
    if (library.string().starts_with(folder)) return true;
  }
  return false;
}

// Half a gigabyte, most of it LibTorch. A hard link where it can be one: an update makes new files.
Status keep_libraries(const fs::path& program, const fs::path& folder) {
  REKINDLE_TRY(const auto libraries, libraries_of(program));
  REKINDLE_CHECK(make_directories(folder, 0700));
  for (const auto& [name, path] : libraries) {
    if (is_of_the_system(path)) continue;
    std::error_code code;
    const fs::path real = fs::canonical(path, code);
    if (!code) fs::create_hard_link(real, folder / name, code);
    if (code) REKINDLE_CHECK(copy_durably(path, folder / name));
  }
  return sync_directory(folder);
}

}  // namespace

bool is_here(const fs::path& programs) {
  std::error_code code;
  return fs::equivalent(own_executable().parent_path(), programs, code);
}

Result<fs::path> keep_program(const run::Layout& layout) {
  const fs::path kept = layout.programs(), here = own_executable().parent_path();
  std::error_code code;
  if (fs::exists(kept / kPrograms[0], code)) return kept;
  const fs::path unfinished = temporary_beside(kept);
  REKINDLE_CHECK(make_directories(unfinished, 0700));
  for (const char* name : kPrograms) REKINDLE_CHECK(copy_durably(here / name, unfinished / name));
  if (const Status libraries = keep_libraries(here / "rekindle-trainer", unfinished / "lib"); !libraries) {
    fs::remove_all(unfinished, code);
    return forward_error(libraries.error());
  }
  if (auto renamed = rename_durably(unfinished, kept); !renamed) {
    fs::remove_all(unfinished, code);
    // Another process of this run was faster.
    if (!fs::exists(kept / kPrograms[0], code)) return forward_error(renamed.error());
  }
  return kept;
}

}  // namespace rekindle::app
