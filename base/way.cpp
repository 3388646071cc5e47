#include "base/way.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/trust.hpp"

namespace rekindle {
namespace fs = std::filesystem;
namespace {

class Way {
 public:
  // Returns the folder to which `way` leads from `folder`.
  fs::path enter(fs::path folder, const fs::path& way) {
    for (const fs::path& part : way) {
      if (part.empty() || part == ".") continue;
      if (part == "..") {
        folder = folder.parent_path();
        continue;
      }
      const bool shared = look_at_folder(folder);
      folder = next(folder / part, shared);
    }
    return folder;
  }
  std::vector<fs::path> found;

 private:
  static constexpr int kMostLinks = 40;  // the kernel's limit: path_resolution(7)

  // `name`, or its target if it is a link. `shared`: other users may create names in its folder.
  fs::path next(const fs::path& name, bool shared) {
    struct stat info {};
    if (::lstat(name.c_str(), &info) != 0 || !S_ISLNK(info.st_mode) || links_ == kMostLinks) return name;
    ++links_;
    if (shared && others_own(info)) add(name);
    std::error_code failed;
    const fs::path target = fs::read_symlink(name, failed);
    return target.is_absolute() ? enter("/", target.relative_path()) : enter(name.parent_path(), target);
  }

  // Whether other users may create names in the folder. In a sticky directory (/tmp) they cannot rename the
  // files of others: only the owners of the directory and of the file can. Source: inode(7), S_ISVTX.
  bool look_at_folder(const fs::path& folder) {
    struct stat info {};
    if (::lstat(folder.c_str(), &info) != 0) return false;
    const bool shared = others_can_write(info);
    if (others_own(info) || (shared && (info.st_mode & S_ISVTX) == 0)) add(folder);
    return shared;
  }

  void add(const fs::path& name) {
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }

  int links_ = 0;
};

}  // namespace

std::vector<fs::path> exchangeable_on_the_way(const fs::path& path) {
  Way way;
  way.enter("/", fs::absolute(path).relative_path());
  return way.found;
}

}  // namespace rekindle
