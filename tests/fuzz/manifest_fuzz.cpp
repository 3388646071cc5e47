// Any bytes as a manifest: an error, or a manifest whose restore fills every row of every tensor once.
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

using Runs = std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>;  // of rows, of each tensor

void require_tiling(Runs runs, const StateSpec& tensors) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::ranges::sort(runs[i]);
    std::int64_t next = 0;
    for (const auto& [first_row, rows] : runs[i]) {
      require(first_row == next, "rows are filled twice or never");
      require(first_row % rows_in_chunk(tensors[i]) == 0, "rows begin within a chunk");
      next += rows;
    }
    require(next == (tensors[i].bytes() == 0 ? 0 : tensors[i].rows()), "a tensor is not filled");
  }
}

void require_tiling(const Manifest& manifest) {
  const StateSpec& tensors = manifest.contents.tensors;
  for (const int parts : {1, 3}) {
    Runs filled(tensors.size());
    for (int part = 0; part < parts; ++part) {
      for (const Slice& slice : part_of(tensors, parts, part))
        filled[slice.tensor].emplace_back(slice.first_row, slice.rows);
    }
    require_tiling(std::move(filled), tensors);
  }
  Runs stored(tensors.size());
  for (const ShardEntry& shard : manifest.shards) {
    for (const DatasetEntry& dataset : shard.datasets) {
      const auto tensor = std::ranges::find(tensors, dataset.name, &TensorSpec::name);
      require(tensor != tensors.end(), "a dataset is of no tensor");
      stored[static_cast<std::size_t>(tensor - tensors.begin())].emplace_back(dataset.first_row,
                                                                              dataset.rows);
    }
  }
  require_tiling(std::move(stored), tensors);
}

void read(const std::string& text) {
  const auto manifest = parse_manifest(text);
  if (!manifest || !check_manifest(*manifest)) return;
  require_tiling(*manifest);
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
