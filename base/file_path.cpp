#include "base/file_path.hpp"

#include <stdexcept>

namespace rekindle {
namespace fs = std::filesystem;

FilePath FilePath::below(fs::path root, Trust trust, fs::path path, std::uint64_t inode) {
  FilePath file;
  file.root_ = std::move(root);
  file.below_ = std::move(path);
  file.trust_ = trust;
  file.root_inode_ = inode;
  return file;
}

FilePath FilePath::parent_path() const {
  if (trust_ == Trust::kNamed || is_root()) {
    const fs::path whole = path();
    return whole.has_parent_path() ? whole.parent_path() : fs::path(".");
  }
  return below(root_, trust_, below_.parent_path(), root_inode_);
}

FilePath FilePath::operator/(const fs::path& name) const {
  if (trust_ == Trust::kNamed) return below_ / name;
  for (const fs::path& part : name) {
    if (part == ".." || name.is_absolute())
      throw std::logic_error("a path outside of its root: " + name.string());
  }
  return below(root_, trust_, below_ / name, root_inode_);
}

}  // namespace rekindle
