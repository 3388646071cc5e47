// How much memory this process may still take: of the machine, and of its cgroups, by which Slurm limits a
// job.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rekindle {

struct MemoryLeft {
  std::uint64_t bytes = 0;  // free, or used by caches that the kernel gives up
  std::uint64_t of = 0;     // all memory below the limit that `bytes` is from
};

// The tightest limit. `root`: of the file system with proc and sys. Limits that cannot be read do not count;
// all zero: none can. Source: proc(5), and the kernel's cgroup-v2 and cgroup-v1/memory documents.
MemoryLeft memory_left(const std::filesystem::path& root = "/");

}  // namespace rekindle
