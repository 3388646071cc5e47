// Which part of metrics.jsonl has which steps.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "base/input_file.hpp"
#include "base/result.hpp"
#include "view/series.hpp"

namespace rekindle::view {

// The file in blocks of lines, at most kMostBlocks of them: if there are more, each two become one. Of the
// newest lines, each one.
class MetricsIndex {
 public:
  static constexpr std::size_t kMostBlocks = 4096;
  static constexpr std::size_t kMostLines = 8192;

  // The next line of the file, which begins at `offset`. `steps` has its step, or is kNoStep.
  void add(std::uint64_t offset, std::string_view line, StepRange steps);
  static constexpr StepRange kNoStep{.from = UINT64_MAX, .to = 0};

  // The part of the file that is in this index and also in `file`, which was shortened or written anew since,
  // and the highest step in this part. If none of the newest lines is left, the part ends at a block's begin.
  struct Kept {
    std::uint64_t bytes = 0, step = 0;
  };
  Result<Kept> kept_in(const InputFile& file) const;

  struct Part {
    std::uint64_t begin = 0, end = 0;  // offsets; both are begins of lines
  };
  // The parts of the file that have all lines with a step in one of `ranges`, and few others.
  std::vector<Part> parts_with(const std::vector<StepRange>& ranges) const;

 private:
  struct Line {
    std::uint64_t offset = 0;
    std::uint64_t hash = 0;    // of the line, or of its begin
    std::uint64_t hashed = 0;  // bytes of it
  };
  struct Block {
    Line first;
    StepRange steps = kNoStep;
  };
  struct RecentLine {
    Line line;
    std::uint64_t step = 0;  // the highest one up to this line
  };
  void add_block(const Line& first);

  std::vector<Block> blocks_;
  std::deque<RecentLine> recent_;
  std::uint64_t end_ = 0;                               // of the last line
  std::uint64_t block_bytes_ = std::uint64_t{1} << 12;  // a block has so many, except the last one
};

}  // namespace rekindle::view
