#include "base/own_code.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "base/process.hpp"

namespace rekindle {
namespace {

struct Mapping {
  char* begin = nullptr;
  std::size_t bytes = 0;
  std::string rights;  // "r-xp"
  std::string file;
};

// Source: proc(5), /proc/PID/maps.
std::vector<Mapping> mappings_of_files() {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    std::istringstream fields(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string rights;
    if (path == std::string::npos || !(fields >> std::hex >> begin >> dash >> end >> rights)) continue;
    found.push_back({reinterpret_cast<char*>(begin),  // NOLINT(performance-no-int-to-ptr)
                     end - begin, rights, line.substr(path)});
  }
  return found;
}

// Whole pages. Variables have guards between them under the address sanitizer, which memcpy() would report.
[[gnu::no_sanitize_address]] void copy_pages(char* to, const char* from, std::size_t bytes) {
  const auto* const words = reinterpret_cast<const volatile std::uint64_t*>(from);
  auto* const copy = reinterpret_cast<std::uint64_t*>(to);
  for (std::size_t i = 0; i < bytes / sizeof *copy; ++i) copy[i] = words[i];
}

// The mapping's content, in memory that belongs to no file. Each step may be refused; the mapping then stays.
void copy_to_memory(const Mapping& mapping) {
  void* copy = ::mmap(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return;
  copy_pages(static_cast<char*>(copy), mapping.begin, mapping.bytes);
  const int rights = PROT_READ | (mapping.rights[2] == 'x' ? PROT_EXEC : 0);
  // mremap() puts the copy in the place of the mapping at once, so the code that runs meanwhile is the same.
  if (::mprotect(copy, mapping.bytes, rights) != 0 ||
      ::mremap(copy, mapping.bytes, mapping.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, mapping.begin) ==
          MAP_FAILED)
    std::ignore = ::munmap(copy, mapping.bytes);
}

// The kernel copies a page at its first write.
[[gnu::no_sanitize_address]] void write_each_page(const Mapping& mapping) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < mapping.bytes; at += page) {
    volatile char* byte = mapping.begin + at;
    *byte = *byte;
  }
}

}  // namespace

void keep_code_in_memory() {
  const std::string folder = own_executable().parent_path().string() + "/";
  for (const Mapping& mapping : mappings_of_files()) {
    if (!mapping.file.starts_with(folder) || mapping.rights[3] != 'p') continue;
    if (mapping.rights[1] == 'w')
      write_each_page(mapping);
    else if (mapping.rights[0] == 'r')
      copy_to_memory(mapping);
  }
}

}  // namespace rekindle
