#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/block_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {
namespace {

// A run of blocks of one shard.
struct BlockRun {
  const ShardEntry* shard = nullptr;
  std::uint64_t first = 0, last = 0;  // [first, last)
  std::uint64_t begin() const { return first * kBlockBytes; }
  std::uint64_t end() const { return std::min(last * kBlockBytes, shard->bytes); }
};

std::vector<BlockRun> runs_of(const Manifest& manifest, int parts, int part) {
  std::uint64_t total = 0;
  for (const ShardEntry& shard : manifest.shards) total += shard.block_hashes.size();
  const auto share = [&](int p) {
    return total * static_cast<std::uint64_t>(p) / static_cast<std::uint64_t>(parts);
  };
  const std::uint64_t from = share(part), to = share(part + 1);
  std::vector<BlockRun> runs;
  std::uint64_t base = 0;
  for (const ShardEntry& shard : manifest.shards) {
    const std::uint64_t count = shard.block_hashes.size();
    const std::uint64_t first = std::clamp(from, base, base + count) - base;
    const std::uint64_t last = std::clamp(to, base, base + count) - base;
    if (first < last) runs.push_back({&shard, first, last});
    base += count;
  }
  return runs;
}

using TensorIndex = std::unordered_map<std::string, std::size_t>;

TensorIndex index_of(const StateSpec& spec) {
  TensorIndex index;
  for (std::size_t i = 0; i < spec.size(); ++i) index.emplace(spec[i].name, i);
  return index;
}

// Calls `use` with each byte range of a tensor that lies in [begin, end) of the file, and its place in the
// file.
void for_each_range(const StateSpec& spec, const TensorIndex& index, const ShardEntry& shard,
                    std::uint64_t begin, std::uint64_t end,
                    const std::function<void(const ByteRange&, std::uint64_t)>& use) {
  // Datasets are in order of offset and do not overlap.
  auto dataset = std::ranges::upper_bound(shard.datasets, begin, {},
                                          [](const DatasetEntry& each) { return each.offset + each.bytes; });
  for (; dataset != shard.datasets.end() && dataset->offset < end; ++dataset) {
    const std::uint64_t from = std::max(dataset->offset, begin);
    const std::uint64_t to = std::min(dataset->offset + dataset->bytes, end);
    const std::size_t tensor = index.at(dataset->name);
    const std::uint64_t first_byte =
        static_cast<std::uint64_t>(dataset->first_row) * spec[tensor].row_bytes();
    use({tensor, first_byte + (from - dataset->offset), to - from}, from);
  }
}

using UseBlock = std::function<void(std::uint64_t begin, std::span<const std::byte> block)>;

// Reads and verifies the blocks of one run, one after the other.
Status read_run(const fs::path& checkpoint_dir, const BlockRun& run, std::span<std::byte> buffer,
                const UseBlock& use) {
  const fs::path path = checkpoint_dir / run.shard->file;
  REKINDLE_TRY(const Fd fd, open_file(path, O_RDONLY | O_NONBLOCK));  // nonblocking: it might be a pipe
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return forward_error(errno_error("cannot stat", path));
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != run.shard->bytes) {
    return fail(str(path.string(), " is damaged: it has ", info.st_size, " bytes, the manifest says ",
                    run.shard->bytes));
  }
  ::posix_fadvise(fd.get(), static_cast<off_t>(run.begin()), static_cast<off_t>(run.end() - run.begin()),
                  POSIX_FADV_SEQUENTIAL);
  for (std::uint64_t i = run.first; i < run.last; ++i) {
    const std::uint64_t begin = i * kBlockBytes;
    const auto block = buffer.first(std::min<std::uint64_t>(kBlockBytes, run.shard->bytes - begin));
    REKINDLE_CHECK(read_into(fd.get(), path, begin, block));
    if (hash64(block) != run.shard->block_hashes[i]) {
      return fail(str(path.string(), " is damaged: block ", i, " (bytes ", begin, " to ",
                      begin + block.size() - 1, ") does not match its checksum"));
    }
    use(begin, block);
  }
  return {};
}

Status check_specs(const Manifest& manifest, const State& state) {
  if (state.size() != manifest.tensors.size()) {
    return fail(str("the checkpoint has ", manifest.tensors.size(), " tensors, the model has ", state.size()),
                "restore with the model and optimizer that wrote it");
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (state[i].spec != manifest.tensors[i] || state[i].bytes.size() != state[i].spec.bytes()) {
      return fail(str("tensor ", state[i].spec.name, " differs from the checkpoint's ",
                      manifest.tensors[i].name, " in name, type, shape or role"),
                  "restore with the model and optimizer that wrote it");
    }
  }
  return {};
}

}  // namespace

std::vector<ByteRange> part_ranges(const Manifest& manifest, int parts, int part) {
  std::vector<ByteRange> ranges;
  const TensorIndex index = index_of(manifest.tensors);
  for (const BlockRun& run : runs_of(manifest, parts, part)) {
    for_each_range(manifest.tensors, index, *run.shard, run.begin(), run.end(),
                   [&ranges](const ByteRange& range, std::uint64_t) { ranges.push_back(range); });
  }
  return ranges;
}

Status read_part(const fs::path& checkpoint_dir, const Manifest& manifest, int parts, int part,
                 const State& state) {
  REKINDLE_CHECK(check_specs(manifest, state));
  const TensorIndex index = index_of(manifest.tensors);
  std::vector<std::byte> buffer(kBlockBytes);
  for (const BlockRun& run : runs_of(manifest, parts, part)) {
    REKINDLE_CHECK(
        read_run(checkpoint_dir, run, buffer, [&](std::uint64_t begin, std::span<const std::byte> block) {
          for_each_range(manifest.tensors, index, *run.shard, begin, begin + block.size(),
                         [&](const ByteRange& range, std::uint64_t place) {
                           std::memcpy(state[range.tensor].bytes.data() + range.offset,
                                       block.data() + (place - begin), range.bytes);
                         });
        }));
  }
  return {};
}

Status verify(const fs::path& checkpoint_dir, const Manifest& manifest) {
  std::vector<std::byte> buffer(kBlockBytes);
  for (const BlockRun& run : runs_of(manifest, 1, 0)) {
    REKINDLE_CHECK(read_run(checkpoint_dir, run, buffer, [](std::uint64_t, std::span<const std::byte>) {}));
  }
  return {};
}

}  // namespace rekindle::checkpoint
