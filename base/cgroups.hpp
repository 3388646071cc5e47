// The cgroups of this process, by which Slurm and containers limit it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rekindle {

enum class CgroupVersion { kFirst, kSecond };

struct Cgroup {
  std::filesystem::path folder;  // with the files of its limits
  CgroupVersion version = CgroupVersion::kSecond;
};

// The cgroup of this process for a controller ("memory", "cpu"), and the groups that contain it: the limits
// of all of them hold. `root`: of the file system with proc and sys. A folder may not exist: a container
// shows its own group as the topmost one. Source: cgroups(7), and the kernel's cgroup-v2 and cgroup-v1
// documents.
std::vector<Cgroup> own_cgroups(const std::filesystem::path& root, const std::string& controller);

}  // namespace rekindle
