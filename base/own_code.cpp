#include "base/own_code.hpp"

#include <sys/mman.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/process.hpp"

namespace rekindle {

void keep_code_in_memory() {
#ifdef MADV_POPULATE_READ
  constexpr int kRead = MADV_POPULATE_READ;  // since Linux 5.14
#else
  constexpr int kRead = MADV_WILLNEED;
#endif
  const std::string program = own_executable().string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    // Libraries, too: a run keeps copies of some of them. (A package's programs have their own libstdc++.)
    if (!line.ends_with(program) && line.find(".so") == std::string::npos) continue;
    std::istringstream fields(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (!(fields >> std::hex >> begin >> dash >> end)) continue;
    // An older kernel refuses the advice: the code is then read when it runs.
    std::ignore =
        ::madvise(reinterpret_cast<void*>(begin), end - begin, kRead);  // NOLINT(performance-no-int-to-ptr)
  }
}

}  // namespace rekindle
