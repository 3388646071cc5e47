// Takes rights away from this process before it reads what may be hostile.
#pragma once

#include <filesystem>

namespace rekindle {

struct Confinement {
  bool files = false;  // by Landlock: no file but the input can be opened
  bool calls = false;  // by seccomp: no network, no process, no program, nothing on disk changed
};

// For the rest of this process's life: it may read `input`, use the descriptors that it has, and end. What
// the kernel does not offer (Landlock: Linux 5.13) is left out; the result says what holds. Not with
// sanitizers, which need more. Sources: landlock(7), seccomp(2).
Confinement confine_to_reading(const std::filesystem::path& input);

}  // namespace rekindle
