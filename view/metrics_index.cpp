#include "view/metrics_index.hpp"

#include <algorithm>
#include <string>

#include "base/hash.hpp"

namespace rekindle::view {
namespace {

constexpr std::size_t kMostHashed = 4096;  // bytes

std::uint64_t hash_of(std::string_view text) { return hash64(std::as_bytes(std::span(text))); }

StepRange both(const StepRange& a, const StepRange& b) {
  return {.from = std::min(a.from, b.from), .to = std::max(a.to, b.to)};
}

}  // namespace

void MetricsIndex::add_block(std::uint64_t offset, std::string_view line) {
  if (blocks_.size() == kMostBlocks) {
    for (std::size_t i = 0; i < kMostBlocks / 2; ++i) {
      Block joined = blocks_[2 * i];
      joined.steps = both(joined.steps, blocks_[2 * i + 1].steps);
      blocks_[i] = joined;
    }
    blocks_.resize(kMostBlocks / 2);
    block_bytes_ *= 2;
  }
  const std::string_view hashed = line.substr(0, kMostHashed);
  blocks_.push_back({.offset = offset, .hash = hash_of(hashed), .hashed = hashed.size()});
}

void MetricsIndex::add(std::uint64_t offset, std::string_view line, StepRange steps) {
  if (blocks_.empty() || offset - blocks_.back().offset >= block_bytes_) add_block(offset, line);
  blocks_.back().steps = both(blocks_.back().steps, steps);
  end_ = offset + line.size() + 1;
}

Result<MetricsIndex::Kept> MetricsIndex::kept_in(const InputFile& file) const {
  Status read;
  // A line has its time and its durations, so an equal line at an equal place means that all before it are
  // equal.
  const auto end = std::ranges::partition_point(blocks_, [&](const Block& block) {
    if (!read || block.offset + block.hashed > file.size) return false;
    std::string begin(block.hashed, '\0');
    read = file.read(block.offset, std::as_writable_bytes(std::span(begin)));
    return read && hash_of(begin) == block.hash;
  });
  if (!read) return forward_error(read.error());
  Kept kept;
  if (end == blocks_.begin()) return kept;
  kept.bytes = std::prev(end)->offset;
  for (auto block = blocks_.begin(); block != std::prev(end); ++block)
    kept.step = std::max(kept.step, block->steps.to);
  return kept;
}

std::vector<MetricsIndex::Part> MetricsIndex::parts_with(const std::vector<StepRange>& ranges) const {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const StepRange& steps = blocks_[i].steps;
    if (std::ranges::none_of(
            ranges, [&](const StepRange& range) { return range.from <= steps.to && steps.from <= range.to; }))
      continue;
    const std::uint64_t begin = blocks_[i].offset,
                        end = i + 1 < blocks_.size() ? blocks_[i + 1].offset : end_;
    if (!parts.empty() && parts.back().end == begin)
      parts.back().end = end;
    else
      parts.push_back({begin, end});
  }
  return parts;
}

}  // namespace rekindle::view
