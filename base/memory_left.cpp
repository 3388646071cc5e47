#include "base/memory_left.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace rekindle {
namespace {

namespace fs = std::filesystem;

// The number in a file of one number; nullopt also for "max".
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// In a file of lines "NAME NUMBER" or "NAME: NUMBER kB".
std::optional<std::uint64_t> field_in(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t number = 0;
    if (words >> first >> number && (first == name || first == name + ":")) return number;
  }
  return std::nullopt;
}

struct Version {
  const char* folder;  // below /sys/fs/cgroup
  const char *limit, *usage, *cache;
};
constexpr Version kFirst{"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kSecond{"", "memory.max", "memory.current", "inactive_file"};

// `path` is that of a cgroup. The limits of the groups that contain it hold, too.
void add_limits(const fs::path& root, const Version& version, fs::path path, MemoryLeft& left) {
  const fs::path groups = root / "sys/fs/cgroup" / version.folder;
  for (;; path = path.parent_path()) {
    const fs::path group = groups / path.relative_path();
    const auto limit = number_in(group / version.limit), usage = number_in(group / version.usage);
    if (limit && usage && *limit < left.of) {
      const std::uint64_t cache = field_in(group / "memory.stat", version.cache).value_or(0);
      const std::uint64_t used = *usage - std::min(*usage, cache);
      const std::uint64_t bytes = *limit - std::min(*limit, used);
      if (bytes < left.bytes) left = {bytes, *limit};
    }
    if (!path.has_relative_path()) return;
  }
}

}  // namespace

MemoryLeft memory_left(const fs::path& root) {
  constexpr std::uint64_t kKilobyte = 1024;
  const auto available = field_in(root / "proc/meminfo", "MemAvailable"),
             total = field_in(root / "proc/meminfo", "MemTotal");
  if (!available || !total) return {};
  MemoryLeft left{*available * kKilobyte, *total * kKilobyte};
  std::ifstream groups(root / "proc/self/cgroup");  // NUMBER:CONTROLLERS:PATH
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = line.substr(second + 1);
    if (controllers == ",,") add_limits(root, kSecond, path, left);
    if (controllers.find(",memory,") != std::string::npos) add_limits(root, kFirst, path, left);
  }
  return left;
}

}  // namespace rekindle
