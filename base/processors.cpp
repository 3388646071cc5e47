#include "base/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "base/cgroups.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;

std::uint64_t in_affinity_mask() {
  constexpr std::size_t kMostSets =
      64;  // of 1024 processors each; the kernel refuses a mask that is too short
  for (std::size_t sets = 1; sets <= kMostSets; sets *= 2) {
    std::vector<cpu_set_t> mask(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0)
      return static_cast<std::uint64_t>(CPU_COUNT_S(bytes, mask.data()));
    if (errno != EINVAL) break;
  }
  return std::thread::hardware_concurrency();
}

// Two numbers of microseconds: how long the group may compute in each period; nullopt: no limit.
std::optional<double> limit_of(const Cgroup& group) {
  double quota = 0, period = 0;
  if (group.version == CgroupVersion::kSecond) {
    std::ifstream max(group.folder / "cpu.max");  // "QUOTA PERIOD", or "max PERIOD"
    if (!(max >> quota >> period)) return std::nullopt;
  } else {
    std::ifstream quota_file(group.folder / "cpu.cfs_quota_us");  // -1: no limit
    std::ifstream period_file(group.folder / "cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::uint64_t processors(const fs::path& root) {
  double count = static_cast<double>(in_affinity_mask());
  for (const Cgroup& group : own_cgroups(root, "cpu")) {
    if (const auto limit = limit_of(group)) count = std::min(count, std::ceil(*limit));
  }
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(count));
}

}  // namespace rekindle
