#include "data/folder_entries.hpp"

#include <sys/stat.h>

#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "data/image_name.hpp"

namespace rekindle::data {

namespace fs = std::filesystem;

namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

Result<std::vector<FolderEntry>> entries_in(const fs::path& path) {
  const auto names = names_in(path);
  if (!names) return fail(ExitCode::kConfig, names.error().what, "make this folder readable");
  std::vector<FolderEntry> entries;
  for (const std::string& name : *names) {
    if (name.starts_with('.')) continue;  // also macOS's ._NAME.jpg beside NAME.jpg, and our own files
    if (!is_utf8(name)) {
      if (kind_of(name) == NameKind::kNone && !is_folder(path / name)) continue;
      return fail(ExitCode::kConfig, str((path / printable(name)).string(), " has a name that is not UTF-8"),
                  "rename it");
    }
    const auto info = look_at(path / name);
    if (!info || !*info)
      return fail(ExitCode::kConfig,
                  info ? str((path / name).string(), " is a link without a target") : info.error().what,
                  "make it readable, or remove it");
    const bool folder = S_ISDIR((*info)->st_mode);
    if (!folder && !S_ISREG((*info)->st_mode)) {
      if (kind_of(name) == NameKind::kNone) continue;
      return fail(ExitCode::kConfig, str((path / name).string(), " is not a regular file"), "remove it");
    }
    entries.push_back({name, folder, static_cast<std::uint64_t>((*info)->st_size)});
  }
  return entries;
}

}  // namespace rekindle::data
