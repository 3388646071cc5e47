// The manifest as text, with its checksum. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

inline constexpr std::uint64_t kFormatVersion = 2;
// The largest manifest. At 35 bytes a chunk, this is enough for states of 7 TB.
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{256} << 20;

// `identity` and `fingerprint` must be JSON objects.
Result<std::string> manifest_text(const Manifest& manifest);
// Checks the checksum and every field's type. manifest_check checks that the fields are consistent.
Result<Manifest> parse_manifest(const std::string& text);

}  // namespace rekindle::checkpoint
