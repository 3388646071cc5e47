// Waiting on a word of shared memory (futex(2)); works on read-only mappings too.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace rekindle::exchange {

// Sleeps until woken, at most `timeout_ms`. Returns at once if the word is not equal to `seen`.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, int timeout_ms) noexcept {
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

inline void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace rekindle::exchange
