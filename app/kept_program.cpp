#include "app/kept_program.hpp"

#include <fcntl.h>

#include "base/files.hpp"
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
  if (auto renamed = rename_durably(unfinished, kept); !renamed) {
    fs::remove_all(unfinished, code);
    // Another process of this run was faster.
    if (!fs::exists(kept / kPrograms[0], code)) return forward_error(renamed.error());
  }
  return kept;
}

}  // namespace rekindle::app
