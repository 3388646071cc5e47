// Any bytes as the header of a .safetensors file: an error, or tensors that fill the data once.
#include <cstdint>
#include <string>

#include "checkpoint/names.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rekindle;
  constexpr std::uint64_t kDataBytes = 24;
  const auto entries =
      checkpoint::parse_header(std::string(reinterpret_cast<const char*>(data), size), kDataBytes);
  if (!entries) return 0;
  std::uint64_t next = 0;
  for (const checkpoint::HeaderEntry& entry : *entries) {
    require(entry.begin == next, "its tensors do not fill the data");
    require(entry.end - entry.begin == entry.spec.bytes(), "a tensor has not its size");
    require(checkpoint::check_tensor_name(entry.spec.name).has_value(), "a name is none");
    next = entry.end;
  }
  require(next == kDataBytes, "its tensors do not fill the data");
  return 0;
}
