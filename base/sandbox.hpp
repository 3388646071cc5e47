// Removes rights from this process before it reads a file that may be malicious.
#pragma once

#include <filesystem>

namespace rekindle {

// Sanitizers need more rights than a confined process has.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanConfine = false;
#else
inline constexpr bool kCanConfine = true;
#endif

struct Confinement {
  bool files = false;  // by Landlock: only the input file can be opened
  bool calls = false;  // by seccomp: no network, no new process or program, no change on disk
};

// Until its end, this process may only read `input`, use its open descriptors, and exit. If the kernel lacks
// a mechanism (Landlock: Linux 5.13), that part is left out; the result lists the active parts. No part is
// active if kCanConfine is false. Sources: landlock(7), seccomp(2).
[[nodiscard]] Confinement confine_to_reading(const std::filesystem::path& input);

}  // namespace rekindle
