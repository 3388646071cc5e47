#include "checkpoint/export.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_file.hpp"
#include "checkpoint/torch_file.hpp"

namespace rekindle::checkpoint {
namespace {

// Writes the bytes of the layout from `begin` to `end`, which belong to no dataset.
Status write_headers(int fd, const FilePath& path, const Layout& layout, std::uint64_t begin,
                     std::uint64_t end) {
  std::vector<std::byte> buffer(std::min(kPieceBytes, end - begin));
  for (; begin < end; begin += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - begin));
    layout.headers.read(begin, piece);
    REKINDLE_CHECK(write_piece(fd, path, begin, piece));
  }
  return {};
}

Status write_open_h5(Fd& fd, const FilePath& path, const Layout& layout, const TensorSource& source) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    if (source.tensors[i].bytes() > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&layout](std::size_t i) { return layout.offsets[i]; });
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    REKINDLE_CHECK(write_headers(fd.get(), path, layout, at, layout.offsets[i]));
    at = layout.offsets[i];
    REKINDLE_CHECK(each_piece(source, i, [&](std::span<const std::byte> piece) -> Status {
      REKINDLE_CHECK(write_piece(fd.get(), path, at, piece));
      at += piece.size();
      return {};
    }));
  }
  REKINDLE_CHECK(write_headers(fd.get(), path, layout, at, layout.bytes));
  REKINDLE_CHECK(set_size(fd.get(), path, layout.bytes));
  REKINDLE_CHECK(sync_file(fd.get(), path));
  return fd.close(path);
}

// Complete tensors as datasets, in the same layout as in shards.
Status write_h5(const FilePath& path, const TensorSource& source) {
  std::vector<LayoutDataset> datasets;
  for (const TensorSpec& tensor : source.tensors)
    datasets.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  REKINDLE_TRY(const Layout layout, lay_out(datasets, {}));
  REKINDLE_TRY(Fd fd, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  Status status = write_open_h5(fd, path, layout, source);
  if (!status) std::ignore = remove_file(path);
  return status;
}

// Replaces each tensor by its moving average, if the run keeps one (--ema) that was ever updated. Returns
// whether it has.
Result<bool> choose_average(const FilePath& checkpoint_dir, const Manifest& manifest, StateSpec& chosen) {
  const StateSpec& all = manifest.contents.tensors;
  // A script's own optimizer may have a state called ema.
  const auto identity = nlohmann::json::parse(manifest.identity, nullptr, false);
  if (!identity.is_object() || !identity.contains("ema")) return false;
  const auto find = [&](const std::string& name) {  // not a tensor of the model that has this name
    return std::ranges::find_if(all, [&](const TensorSpec& tensor) {
      return tensor.role == Role::kOptimizer && tensor.name == name;
    });
  };
  const auto updates = find(kUpdateCounters);
  if (updates == all.end() || updates->dtype != Dtype::kInt32 || updates->bytes() == 0) return false;
  REKINDLE_TRY(const Tensors counters, load_tensors(checkpoint_dir, manifest, {*updates}));
  std::int32_t made = 0;  // updates of the model
  std::memcpy(&made, counters.state[0].bytes.data(), sizeof made);
  bool found = false;
  for (TensorSpec& tensor : chosen) {
    const auto average = find(str(kAverage, ".", tensor.name));
    if (made <= 0 || average == all.end()) continue;
    tensor = *average;
    found = true;
  }
  return found;
}

// `chosen` gets the tensor once more, and `named` under its other name.
void add_other_names(const std::vector<OtherName>& others, StateSpec& chosen, StateSpec& named) {
  for (const OtherName& other : others) {
    const auto tensor = std::ranges::find(chosen, other.of, &TensorSpec::name);
    if (tensor == chosen.end()) continue;
    const TensorSpec again = *tensor;
    chosen.push_back(again);
    named.push_back(again);
    named.back().name = other.name;
  }
}

}  // namespace

Result<LoadedState> load(const FilePath& checkpoint_dir) {
  LoadedState loaded;
  REKINDLE_TRY(loaded.manifest, read_manifest(checkpoint_dir));
  // Before memory is allocated: the sizes in the manifest are then bounded by existing files.
  REKINDLE_CHECK(check_files(checkpoint_dir, loaded.manifest));
  for (const TensorSpec& spec : loaded.manifest.contents.tensors) {
    auto& storage = loaded.storage.emplace_back(spec.bytes());
    loaded.state.push_back({spec, storage});
  }
  REKINDLE_CHECK(read_part(checkpoint_dir, loaded.manifest, 1, 0, loaded.state));
  return loaded;
}

Status check_writable_extension(const FilePath& file) {
  const std::string extension = file.extension().string();
  for (const char* known : {".safetensors", ".h5", ".pt"}) {
    if (extension == known) return {};
  }
  return fail(ExitCode::kUsage, str("cannot export to ", file.string()),
              "the name must end in .safetensors, .h5 or .pt");
}

Status write_tensors(const FilePath& file, const State& state) {
  return write_tensors(file, source_of(state));
}

Status write_tensors(const FilePath& file, const TensorSource& source) {
  REKINDLE_CHECK(check_writable_extension(file));
  const std::string extension = file.extension().string();
  const FilePath temporary = temporary_beside(file);
  REKINDLE_CHECK(extension == ".h5"   ? write_h5(temporary, source)
                 : extension == ".pt" ? write_torch(temporary, source)
                                      : write_safetensors(temporary, source));
  Status renamed = rename_durably(temporary, file);
  if (!renamed) std::ignore = remove_file(temporary);
  return renamed;
}

std::vector<OtherName> other_names(const std::vector<std::string>& pairs) {
  std::vector<OtherName> names;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) names.push_back({pairs[i], pairs[i + 1]});
  return names;
}

Result<ExportSource> export_source(const FilePath& checkpoint_dir, const Manifest& manifest,
                                   ExportContents contents, const std::vector<OtherName>& others) {
  ExportSource exported;
  StateSpec chosen = manifest.contents.tensors;
  if (contents != ExportContents::kWholeState)
    std::erase_if(chosen, [](const TensorSpec& tensor) { return tensor.role == Role::kOptimizer; });
  StateSpec named = chosen;
  if (contents != ExportContents::kWholeState) add_other_names(others, chosen, named);
  if (contents == ExportContents::kModel) {
    REKINDLE_TRY(exported.averaged, choose_average(checkpoint_dir, manifest, chosen));
  }
  REKINDLE_TRY(exported.source, source_of(checkpoint_dir, manifest, chosen));
  exported.source.tensors = named;
  return exported;
}

Result<StateSpec> export_file(const FilePath& checkpoint_dir, const FilePath& file, ExportContents contents,
                              const std::vector<OtherName>& others) {
  REKINDLE_CHECK(check_writable_extension(file));
  REKINDLE_TRY(const Manifest manifest, read_manifest(checkpoint_dir));
  REKINDLE_TRY(const ExportSource exported, export_source(checkpoint_dir, manifest, contents, others));
  REKINDLE_CHECK(write_tensors(file, exported.source));
  return exported.source.tensors;
}

}  // namespace rekindle::checkpoint
