#include "trainer/memory.hpp"

#include <fstream>
#include <string>

namespace rekindle::trainer {

std::uint64_t pss_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "Pss:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace rekindle::trainer
