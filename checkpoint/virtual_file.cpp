#include "checkpoint/virtual_file.hpp"

#include <unordered_map>

#include "base/files.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/manifest_text.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

using RowsByTensor = std::unordered_map<std::string, std::vector<RowsElsewhere>>;

RowsByTensor rows_by_tensor(const Manifest& manifest) {
  RowsByTensor rows;
  for (const ShardEntry& shard : manifest.shards) {
    for (const DatasetEntry& dataset : shard.datasets)
      rows[dataset.name].push_back({shard.file, dataset.first_row, dataset.rows});
  }
  return rows;
}

Result<Layout> lay_out_whole(const Manifest& manifest) {
  const RowsByTensor rows = rows_by_tensor(manifest);
  std::vector<LayoutDataset> datasets;
  for (const TensorSpec& tensor : manifest.contents.tensors) {
    LayoutDataset dataset{tensor.name, tensor.dtype, tensor.shape, {}};
    if (const auto found = rows.find(tensor.name); found != rows.end()) dataset.elsewhere = found->second;
    datasets.push_back(std::move(dataset));
  }
  return lay_out(datasets, {{"rekindle_format", {static_cast<std::int64_t>(kFormatVersion)}, true},
                            {"shards", {static_cast<std::int64_t>(manifest.shards.size())}, true},
                            {"step", {static_cast<std::int64_t>(manifest.id.step)}, true}});
}

}  // namespace

Status write_virtual_file(const FilePath& checkpoint_dir, const Manifest& manifest) {
  REKINDLE_TRY(const Layout layout, lay_out_whole(manifest));
  std::string text(layout.bytes, '\0');
  layout.headers.read(0, std::as_writable_bytes(std::span(text)));
  return replace_file_quickly(checkpoint_dir / kVirtualFile, text);
}

}  // namespace rekindle::checkpoint
