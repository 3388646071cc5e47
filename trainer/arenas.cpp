#include "trainer/arenas.hpp"

#include <functional>

namespace rekindle::trainer {

std::size_t begin_in_arena(std::span<const std::byte> bytes, const Arenas& arenas) {
  const std::less_equal<const std::byte*> not_after;
  for (const std::span<const std::byte> arena : arenas) {
    const std::byte* const end = bytes.data() + bytes.size();
    if (not_after(arena.data(), bytes.data()) && not_after(end, arena.data() + arena.size()))
      return static_cast<std::size_t>(bytes.data() - arena.data());
  }
  return kNowhere;
}

}  // namespace rekindle::trainer
