// A file system that is soon full.
#pragma once

#include <sys/mount.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace rekindle {

// Of `mib` MiB, at `path` until the end of the test. Not there where this process may not mount.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path path, int mib) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    const std::string size = "size=" + std::to_string(mib) + "m";
    mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return path_; }

  // Takes all the room that is left but `bytes`, until empty().
  void fill(std::uintmax_t bytes = 0) const {
    {
      std::ofstream out(path_ / "ballast", std::ios::binary);
      const std::string some(std::size_t{1} << 20, 'x');
      while (out << some && out.flush()) continue;
    }
    if (bytes == 0) return;
    const std::uintmax_t all = std::filesystem::file_size(path_ / "ballast");
    std::filesystem::resize_file(path_ / "ballast", all - std::min(all, bytes));
  }
  void empty() const { std::filesystem::remove(path_ / "ballast"); }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

}  // namespace rekindle
