// An authenticated connection to another member of the generation.
#pragma once

#include <optional>

#include "base/files.hpp"
#include "exchange/frame_mac.hpp"

namespace rekindle::exchange {

struct Connection {
  Fd fd;                          // empty for this trainer's own rank
  std::optional<FrameKeys> keys;  // empty: frames have no tags
};

}  // namespace rekindle::exchange
