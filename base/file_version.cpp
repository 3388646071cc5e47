#include "base/file_version.hpp"

#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle {

std::string file_version(const FilePath& path) {
  const auto info = look_at(path).value_or(std::nullopt);
  if (!info) return "";
  return str(info->st_ino, ":", info->st_mtim.tv_sec, ".", info->st_mtim.tv_nsec, ":", info->st_size);
}

}  // namespace rekindle
