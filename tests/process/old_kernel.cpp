// Runs a command as on a kernel of Red Hat Enterprise Linux 8, which is Linux 4.18:
//
//   old_kernel COMMAND...
//
// A filter of system calls (seccomp(2)) refuses what is newer.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace {

// The newest call of Linux 4.18 on x86-64 is rseq, 334; newer calls have the same numbers on all
// architectures, from 424 on.
constexpr std::uint32_t kFirstNewCall = 335;

constexpr std::uint32_t argument(unsigned number) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + number * sizeof(std::uint64_t));
}

constexpr std::uint32_t answer(int error) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstNewCall, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer(ENOSYS)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, MADV_KEEPONFORK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer(EINVAL)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_ADD_SEALS, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, F_SEAL_FUTURE_WRITE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer(EINVAL)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<std::uint16_t>(std::size(code)), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::perror("old_kernel: the filter of system calls");
    return 1;
  }
  ::execvp(argv[1], argv + 1);
  std::perror(argv[1]);
  return 127;
}
