// Any bytes as the index of an image folder, with a right checksum: nothing, or a listing whose files are
// inside.
#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "require.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

// In memory, one for this process.
const fs::path& directory() {
  static const TemporaryDirectory memory = [] {
    start_logging("fuzz", {}, LogLevel::kNone);  // every damaged index is logged
    return TemporaryDirectory("/dev/shm");
  }();
  return memory.path();
}

void read(std::string bytes) {
  const Hash128 hash = hash128(std::as_bytes(std::span(bytes)));
  for (const std::uint64_t word : {hash.low, hash.high})
    bytes.append(reinterpret_cast<const char*>(&word), 8);
  const fs::path path = note_beside(directory(), kIndexNote).path();
  {
    const auto fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(fd && write_all(fd->get(), path, 0, std::as_bytes(std::span(bytes))), "it cannot be written");
  }
  const auto listing = read_index(directory());
  if (!listing) return;
  for (const auto* files : {&listing->train, &listing->test}) {
    for (const ListedFile& file : *files) {
      require(file.label < listing->class_names.size(), "a label has no class");
      const fs::path inside = fs::path(listing->path_of(file)).parent_path();
      for (const fs::path& part : inside) require(part != ".." && part != "/", "a file is outside");
    }
  }
  require(identity_of(*listing) == identity_of(*listing), "it has no identity");
}

}  // namespace
}  // namespace rekindle::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rekindle::data::read({reinterpret_cast<const char*>(data), size});
  return 0;
}
