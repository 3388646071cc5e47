#include "base/memory_left.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/cgroups.hpp"

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

struct Files {
  const char *limit, *usage, *cache;
};
constexpr Files kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Files kSecond{"memory.max", "memory.current", "inactive_file"};

void add_limit(const Cgroup& group, MemoryLeft& left) {
  const Files& files = group.version == CgroupVersion::kFirst ? kFirst : kSecond;
  const auto limit = number_in(group.folder / files.limit), usage = number_in(group.folder / files.usage);
  if (!limit || !usage || *limit >= left.of) return;
  const std::uint64_t cache = field_in(group.folder / "memory.stat", files.cache).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  const std::uint64_t bytes = *limit - std::min(*limit, used);
  if (bytes < left.bytes) left = {bytes, *limit};
}

}  // namespace

MemoryLeft memory_left(const fs::path& root) {
  constexpr std::uint64_t kKilobyte = 1024;
  const auto available = field_in(root / "proc/meminfo", "MemAvailable"),
             total = field_in(root / "proc/meminfo", "MemTotal");
  if (!available || !total) return {};
  MemoryLeft left{*available * kKilobyte, *total * kKilobyte};
  for (const Cgroup& group : own_cgroups(root, "memory")) add_limit(group, left);
  return left;
}

}  // namespace rekindle
