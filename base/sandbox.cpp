#include "base/sandbox.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/files.hpp"

namespace rekindle {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

// The system calls that are needed to read a file and to compute.
constexpr int kAllowed[] = {
    SYS_read,         SYS_pread64,     SYS_readv,         SYS_write,
    SYS_pwrite64,     SYS_writev,      SYS_lseek,         SYS_close,
    SYS_fstat,        SYS_newfstatat,  SYS_statx,         SYS_faccessat,
    SYS_readlinkat,   SYS_getcwd,      SYS_dup,           SYS_flock,
    SYS_ftruncate,    SYS_fsync,       SYS_fadvise64,     SYS_mmap,
    SYS_munmap,       SYS_mremap,      SYS_mprotect,      SYS_madvise,
    SYS_brk,          SYS_futex,       SYS_rt_sigaction,  SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_sigaltstack, SYS_clock_gettime, SYS_gettimeofday,
    SYS_getpid,       SYS_gettid,      SYS_getuid,        SYS_geteuid,
    SYS_getgid,       SYS_getegid,     SYS_getrandom,     SYS_getrusage,
    SYS_uname,        SYS_sysinfo,     SYS_sched_yield,   SYS_sched_getaffinity,
    SYS_exit,         SYS_exit_group,
#ifdef SYS_open  // not on newer architectures
    SYS_stat,         SYS_lstat,       SYS_access,        SYS_readlink,
#endif
};

constexpr std::uint32_t at(std::size_t field) { return static_cast<std::uint32_t>(field); }

constexpr sock_filter statement(unsigned code, std::uint32_t value) {
  return {static_cast<std::uint16_t>(code), 0, 0, value};
}
constexpr sock_filter jump(unsigned test, std::uint32_t value, std::uint8_t if_true, std::uint8_t if_false) {
  return {static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), if_true, if_false, value};
}

// A forbidden call returns EPERM: a library may handle that, and hijacked code still cannot do harm.
std::vector<sock_filter> program() {
  constexpr std::uint32_t kNo = SECCOMP_RET_ERRNO | EPERM;
  constexpr unsigned kLoad = BPF_LD | BPF_W | BPF_ABS, kReturn = BPF_RET | BPF_K;
  const auto self = static_cast<std::uint32_t>(::getpid());
  std::vector<sock_filter> code = {
      statement(kLoad, at(offsetof(seccomp_data, arch))),
      jump(BPF_JEQ, kArchitecture, 1, 0),
      statement(kReturn, SECCOMP_RET_KILL_PROCESS),
      statement(kLoad, at(offsetof(seccomp_data, nr))),
  };
  for (const int call : kAllowed) {
    code.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1));
    code.push_back(statement(kReturn, SECCOMP_RET_ALLOW));
  }
  // Allows to open for reading: no flag that writes, creates or truncates a file.
  const auto allow_reading = [&code](int call, std::size_t flags_argument) {
    constexpr std::uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
    code.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 4));
    code.push_back(
        statement(kLoad, at(offsetof(seccomp_data, args) + flags_argument * sizeof(std::uint64_t))));
    code.push_back(jump(BPF_JSET, kWrites, 0, 1));
    code.push_back(statement(kReturn, kNo));
    code.push_back(statement(kReturn, SECCOMP_RET_ALLOW));
  };
  allow_reading(SYS_openat, 2);
#ifdef SYS_open
  allow_reading(SYS_open, 1);
#endif
  // Not F_SETOWN and similar commands, by which the kernel sends signals to other processes for this one.
  constexpr int kCommands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC, F_GETLK, F_SETLK};
  constexpr auto kCount = static_cast<std::uint8_t>(std::size(kCommands));
  code.push_back(jump(BPF_JEQ, SYS_fcntl, 0, kCount + 3));
  code.push_back(statement(kLoad, at(offsetof(seccomp_data, args) + sizeof(std::uint64_t))));
  for (std::uint8_t i = 0; i < kCount; ++i)
    code.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(kCommands[i]), kCount - i, 0));
  code.push_back(statement(kReturn, kNo));
  code.push_back(statement(kReturn, SECCOMP_RET_ALLOW));
  // abort() sends this process a signal.
  code.push_back(jump(BPF_JEQ, SYS_tgkill, 0, 3));
  code.push_back(statement(kLoad, at(offsetof(seccomp_data, args))));
  code.push_back(jump(BPF_JEQ, self, 0, 1));
  code.push_back(statement(kReturn, SECCOMP_RET_ALLOW));
  code.push_back(statement(kReturn, kNo));
  return code;
}

bool forbid_calls() {
  if (kArchitecture == 0) return false;
  std::vector<sock_filter> code = program();
  const sock_fprog filter{static_cast<std::uint16_t>(code.size()), code.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool forbid_files(const std::filesystem::path& input) {
  landlock_ruleset_attr all{};
  // The access rights of the first version of Landlock; later versions only add rights.
  all.handled_access_fs =
      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
      LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
      LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
      LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
      LANDLOCK_ACCESS_FS_MAKE_SYM;
  const Fd rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0)));
  if (!rules) return false;
  const Fd file(::open(input.c_str(), O_PATH | O_CLOEXEC));
  landlock_path_beneath_attr readable{};
  readable.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
  readable.parent_fd = file.get();
  if (!file || ::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &readable, 0) != 0)
    return false;
  return ::syscall(SYS_landlock_restrict_self, rules.get(), 0) == 0;
}

}  // namespace

Confinement confine_to_reading(const std::filesystem::path& input) {
  Confinement done;
  if (!kCanConfine || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return done;
  done.files = forbid_files(input);
  done.calls = forbid_calls();
  return done;
}

}  // namespace rekindle
