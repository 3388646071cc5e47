// The header of a .safetensors file: a JSON object of tensors. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

struct HeaderEntry {
  TensorSpec spec;
  std::uint64_t begin = 0, end = 0;  // of its data, from the header's end
};

// In the order of their data, which must fill `data_bytes` bytes without gaps or overlaps, as the format
// requires. Time and memory are proportional to the text's length, for any content.
Result<std::vector<HeaderEntry>> parse_header(const std::string& text, std::uint64_t data_bytes);

}  // namespace rekindle::checkpoint
