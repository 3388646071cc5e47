// What this machine lets a process do, found out without what the tests are about to use.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace rekindle {

enum class Needs {
  kSetup,      // what ./dev test installs or starts: its absence is a fault
  kPython,     // what ./dev python installs: as kSetup, since CI does that first
  kRoot,       // users, host names, daemons
  kMounts,     // file systems in memory
  kOwnMounts,  // mount namespaces; not in a chroot whose root is no mount
  kNetworks,   // network namespaces
  kFuse,       // file systems in user space
  kLandlock,   // of the kernel
  kMachine,    // another kernel, file system or build: nobody can mend that
};

// Whether this process has a capability (capabilities(7)); false where /proc does not say.
inline bool has_capability(int number) {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kEffective = "CapEff:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kEffective)) continue;
    constexpr int kHex = 16;
    return ((std::strtoull(line.c_str() + kEffective.size(), nullptr, kHex) >> number) & 1U) != 0;
  }
  return false;
}

inline bool machine_gives(Needs needs) {
  constexpr int kNetAdmin = 12, kSysAdmin = 21;
  switch (needs) {
    case Needs::kSetup:
    case Needs::kPython:
      return true;
    case Needs::kRoot:
      return ::geteuid() == 0;
    case Needs::kMounts:
      return has_capability(kSysAdmin);
    case Needs::kOwnMounts: {
      const pid_t child = ::fork();
      if (child == 0)
        ::_exit(::unshare(CLONE_NEWNS) == 0 &&
                        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
                    ? 0
                    : 1);
      int status = 1;
      return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
    }
    case Needs::kNetworks:
      return has_capability(kSysAdmin) && has_capability(kNetAdmin);
    case Needs::kFuse:
      return has_capability(kSysAdmin) && ::access("/dev/fuse", R_OK | W_OK) == 0;
    case Needs::kLandlock: {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
      return false;  // they need more than a confined process may have
#else
      constexpr unsigned kVersion = 1;  // LANDLOCK_CREATE_RULESET_VERSION
      return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion) > 0;
#endif
    }
    case Needs::kMachine:
      return false;
  }
  return true;
}

// Whether a test that cannot run for want of this is a failed one.
inline bool must_run(Needs needs) {
  return std::getenv("REKINDLE_STRICT") != nullptr && machine_gives(needs);
}

}  // namespace rekindle
