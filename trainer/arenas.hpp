// Places in the memory that an update changes: several arenas, all of them from their beginning to their end.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace rekindle::trainer {

using Arenas = std::vector<std::span<const std::byte>>;

inline constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

// Where `bytes` begin in the arena that they lie in; kNowhere if they lie in none.
std::size_t begin_in_arena(std::span<const std::byte> bytes, const Arenas& arenas);

}  // namespace rekindle::trainer
