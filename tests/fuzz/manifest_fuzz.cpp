// Any bytes as a manifest: an error, or a manifest whose restore fills every byte of every tensor once.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../checkpoint/resign.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/manifest_text.hpp"

namespace rekindle::checkpoint {
namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "a manifest was accepted, but %s\n", what);
  std::abort();
}

void require_tiling(const Manifest& manifest, int parts) {
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> filled(manifest.tensors.size());
  for (int part = 0; part < parts; ++part) {
    for (const ByteRange& range : part_ranges(manifest, parts, part)) {
      require(range.tensor < filled.size(), "a range is of no tensor");
      filled[range.tensor].emplace_back(range.offset, range.bytes);
    }
  }
  for (std::size_t i = 0; i < filled.size(); ++i) {
    std::ranges::sort(filled[i]);
    std::uint64_t next = 0;
    for (const auto& [offset, bytes] : filled[i]) {
      require(offset == next, "bytes are filled twice or never");
      next += bytes;
    }
    require(next == manifest.tensors[i].bytes(), "a tensor is not filled, or more than that");
  }
}

void read(const std::string& text) {
  const auto manifest = parse_manifest(text);
  if (!manifest || !check_manifest(*manifest)) return;
  for (const int parts : {1, 3}) require_tiling(*manifest, parts);
  const auto written = manifest_text(*manifest);
  require(written.has_value(), "it cannot be written");
  const auto again = parse_manifest(*written);
  require(again && check_manifest(*again), "it is refused when written again");
  require(manifest_text(*again).value_or("") == *written, "it changes when written again");
}

}  // namespace
}  // namespace rekindle::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  rekindle::checkpoint::read(text);
  if (size >= 51) rekindle::checkpoint::read(rekindle::checkpoint::resigned(text));
  return 0;
}
