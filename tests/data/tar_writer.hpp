// A tar archive (ustar) in memory.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace rekindle::data {

class Tar {
 public:
  void add(const std::string& name, const std::string& bytes, char type = '0') {
    std::string header(512, '\0');
    name.copy(header.data(), 100);
    std::snprintf(&header[100], 8, "%07o", 0644);
    std::snprintf(&header[124], 12, "%011zo", bytes.size());
    std::memset(&header[148], ' ', 8);
    header[156] = type;
    std::memcpy(&header[257], "ustar\00000", 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(&header[148], 8, "%06o", sum);
    bytes_ += header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  }
  const std::string& unfinished() const { return bytes_; }
  std::string finished() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_;
};

}  // namespace rekindle::data
