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

void MetricsIndex::add_block(const Line& first) {
  if (blocks_.size() == kMostBlocks) {
    for (std::size_t i = 0; i < kMostBlocks / 2; ++i) {
      Block joined = blocks_[2 * i];
      joined.steps = both(joined.steps, blocks_[2 * i + 1].steps);
      blocks_[i] = joined;
    }
    blocks_.resize(kMostBlocks / 2);
    block_bytes_ *= 2;
  }
  blocks_.push_back({.first = first});
}

void MetricsIndex::add(std::uint64_t offset, std::string_view text, StepRange steps) {
  const std::string_view hashed = text.substr(0, kMostHashed);
  const Line line{.offset = offset, .hash = hash_of(hashed), .hashed = hashed.size()};
  if (blocks_.empty() || offset - blocks_.back().first.offset >= block_bytes_) add_block(line);
  blocks_.back().steps = both(blocks_.back().steps, steps);
  const std::uint64_t before = recent_.empty() ? 0 : recent_.back().step;
  recent_.push_back({.line = line, .step = std::max(before, steps.to)});
  if (recent_.size() > kMostLines) recent_.pop_front();
  end_ = offset + text.size() + 1;
}

Result<MetricsIndex::Kept> MetricsIndex::kept_in(const InputFile& file) const {
  Status read;
  // A line has its time and its durations, so an equal line at an equal place means that all before it are
  // equal.
  const auto is_there = [&](const Line& line) {
    if (!read || line.offset + line.hashed > file.size) return false;
    std::string begin(line.hashed, '\0');
    read = file.read(line.offset, std::as_writable_bytes(std::span(begin)));
    return read && hash_of(begin) == line.hash;
  };
  const auto gone =
      std::ranges::partition_point(recent_, [&](const RecentLine& recent) { return is_there(recent.line); });
  if (!read) return forward_error(read.error());
  if (gone != recent_.begin())
    return Kept{.bytes = gone == recent_.end() ? end_ : gone->line.offset, .step = std::prev(gone)->step};
  const auto end =
      std::ranges::partition_point(blocks_, [&](const Block& block) { return is_there(block.first); });
  if (!read) return forward_error(read.error());
  Kept kept;
  if (end == blocks_.begin()) return kept;
  kept.bytes = std::prev(end)->first.offset;
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
    const std::uint64_t begin = blocks_[i].first.offset,
                        end = i + 1 < blocks_.size() ? blocks_[i + 1].first.offset : end_;
    if (!parts.empty() && parts.back().end == begin)
      parts.back().end = end;
    else
      parts.push_back({begin, end});
  }
  return parts;
}

}  // namespace rekindle::view
