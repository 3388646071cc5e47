// Flips bits in the memory of a trainer, as a hardware fault does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {

inline std::string bytes_at(const fs::path& file, std::uintptr_t offset, std::size_t count) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(count, '\0');
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(bytes.data(), static_cast<std::streamsize>(count));
  return in ? bytes : "";
}

// The addresses of `bytes` in the memory of a process: the state, and copies of it that were released.
inline std::vector<std::uintptr_t> find_in_memory(pid_t pid, const std::string& bytes) {
  std::vector<std::uintptr_t> places;
  std::ifstream maps(str("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0, last = 0;
    char mode[8] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &first, &last, mode) != 3) continue;
    // Skips small ranges, and the terabytes that sanitizers reserve.
    if (std::string(mode) != "rw-p" || last - first < (1UL << 20) || last - first > (1UL << 36)) continue;
    const std::string memory = bytes_at(str("/proc/", pid, "/mem"), first, last - first);
    for (auto at = memory.find(bytes); at != std::string::npos; at = memory.find(bytes, at + 1))
      places.push_back(first + at);
  }
  return places;
}

// Flips one bit in the state of a suspended trainer, found by the bytes of its newest checkpoint. False if
// the state has changed since that checkpoint.
inline bool flip_a_bit(pid_t pid, const fs::path& run_dir) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints")) {
    if (fs::exists(entry.path() / "manifest.json") && entry.path() > newest) newest = entry.path();
  }
  if (newest.empty()) return false;
  const fs::path shard = newest / "shard-00000-of-00003.h5";
  const std::string bytes = bytes_at(shard, fs::file_size(shard) / 2, 64);
  if (bytes.find_first_not_of('\0') == std::string::npos) return false;
  const auto places = find_in_memory(pid, bytes);
  std::fstream memory(str("/proc/", pid, "/mem"), std::ios::in | std::ios::out | std::ios::binary);
  for (const std::uintptr_t at : places) {
    memory.seekp(static_cast<std::streamoff>(at));
    memory.put(static_cast<char>(bytes[0] ^ 4));
  }
  return !places.empty() && memory.flush();
}

}  // namespace rekindle::process_test
