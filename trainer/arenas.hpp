// Positions in the memory that an update changes: several arenas, and the update walks all of them in
// parallel from beginning to end.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace rekindle::trainer {

using Arenas = std::vector<std::span<const std::byte>>;

inline constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

// The offset of `bytes` in the arena that contains them; kNowhere if no arena does.
std::size_t begin_in_arena(std::span<const std::byte> bytes, const Arenas& arenas);

}  // namespace rekindle::trainer
