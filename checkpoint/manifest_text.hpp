// The manifest as text, with its checksum. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

inline constexpr std::uint64_t kFormatVersion = 2;
// No manifest is larger: 35 bytes a chunk make this room for states of 7 TB.
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{256} << 20;

// `identity` and `fingerprint` must be JSON objects.
Result<std::string> manifest_text(const Manifest& manifest);
// Checks the checksum and every field's type; what the fields say together is manifest_check's matter.
Result<Manifest> parse_manifest(const std::string& text);

}  // namespace rekindle::checkpoint
