// Sizes for messages: "812 bytes", "4.8 MB", "1.06 GB" (powers of 1000, as disks and ls --si have them).
#pragma once

#include <cstdint>
#include <string>

namespace rekindle {

std::string format_bytes(std::uint64_t bytes);

}  // namespace rekindle
