// An authenticated connection to another member of the generation.
#pragma once

#include <optional>

#include "base/files.hpp"
#include "exchange/frame_mac.hpp"

namespace rekindle::exchange {

struct Connection {
  Fd fd;                          // empty for one's own rank
  std::optional<FrameKeys> keys;  // none: frames have no tags
};

}  // namespace rekindle::exchange
