#include "base/cgroups.hpp"

#include <fstream>

namespace rekindle {
namespace {

namespace fs = std::filesystem;

// `path` is that of a cgroup below `top`.
void add_with_parents(const fs::path& top, CgroupVersion version, fs::path path,
                      std::vector<Cgroup>& groups) {
  for (;; path = path.parent_path()) {
    groups.push_back({top / path.relative_path(), version});
    if (!path.has_relative_path()) return;
  }
}

}  // namespace

std::vector<Cgroup> own_cgroups(const fs::path& root, const std::string& controller) {
  const fs::path top = root / "sys/fs/cgroup";
  std::vector<Cgroup> groups;
  std::ifstream lines(root / "proc/self/cgroup");  // NUMBER:CONTROLLERS:PATH
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = line.substr(second + 1);
    if (controllers == ",,") add_with_parents(top, CgroupVersion::kSecond, path, groups);
    if (controllers.find("," + controller + ",") != std::string::npos)
      add_with_parents(top / controller, CgroupVersion::kFirst, path, groups);
  }
  return groups;
}

}  // namespace rekindle
