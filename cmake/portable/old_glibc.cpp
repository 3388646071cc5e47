// What the packages' programs call of glibc 2.29 to 2.36, in terms of glibc 2.28: each program and library of
// a package has these functions itself (compiled with hidden visibility). The system that they are linked
// with has glibc 2.31.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// How long the time of day may stand still or go back without effect on a wait.
constexpr std::int64_t kSlice = kSecond / 2;

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

std::int64_t now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return nanoseconds(time);
}

// The end of the next part of a wait, as a time of day: glibc before 2.30 waits for no other.
timespec end_of_slice(std::int64_t left) {
  const std::int64_t end = now(CLOCK_REALTIME) + (left < kSlice ? left : kSlice);
  return {.tv_sec = static_cast<time_t>(end / kSecond), .tv_nsec = static_cast<long>(end % kSecond)};
}

}  // namespace

extern "C" {

// Before 2.29, exp() and pow() had wrappers that set errno; what they compute is the same.
double rekindle_old_exp(double exponent) noexcept;
double rekindle_old_pow(double base, double exponent) noexcept;
#if defined(__x86_64__)
__asm__(".symver rekindle_old_exp, exp@GLIBC_2.2.5");
__asm__(".symver rekindle_old_pow, pow@GLIBC_2.2.5");
#else  // aarch64
__asm__(".symver rekindle_old_exp, exp@GLIBC_2.17");
__asm__(".symver rekindle_old_pow, pow@GLIBC_2.17");
#endif
double exp(double exponent) noexcept { return rekindle_old_exp(exponent); }
double pow(double base, double exponent) noexcept { return rekindle_old_pow(base, exponent); }

// libstdc++ uses atomic operations unless it knows that there is one thread.
char __libc_single_threaded = 0;

// libstdc++ calls it for std::random_device.
std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) std::terminate();
  return number;
}

int execveat(int folder, const char* path, char* const arguments[], char* const environment[],
             int flags) noexcept {
  return static_cast<int>(::syscall(SYS_execveat, folder, path, arguments, environment, flags));
}

const char* sigabbrev_np(int signal) noexcept {
  // The numbers of x86 and ARM.
  static const char* const names[] = {nullptr,  "HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",
                                      "FPE",    "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM",
                                      "STKFLT", "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",
                                      "XCPU",   "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR",  "SYS"};
  constexpr int kCount = sizeof names / sizeof names[0];
  return signal > 0 && signal < kCount ? names[signal] : nullptr;
}

// A wait that ends early is one that was woken for no reason, which every caller expects.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  using Call = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto call = reinterpret_cast<Call>(::dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (call != nullptr) return call(condition, mutex, clock, until);
  const std::int64_t left = nanoseconds(*until) - now(clock);
  if (left <= 0) return ETIMEDOUT;
  const timespec end = end_of_slice(left);
  const int result = ::pthread_cond_timedwait(condition, mutex, &end);
  return result == ETIMEDOUT && now(clock) < nanoseconds(*until) ? 0 : result;
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) noexcept {
  using Call = int (*)(pthread_mutex_t*, clockid_t, const timespec*);
  static const auto call = reinterpret_cast<Call>(::dlsym(RTLD_DEFAULT, "pthread_mutex_clocklock"));
  if (call != nullptr) return call(mutex, clock, until);
  while (true) {
    const std::int64_t left = nanoseconds(*until) - now(clock);
    const timespec end = end_of_slice(left > 0 ? left : 0);
    const int result = ::pthread_mutex_timedlock(mutex, &end);
    if (result != ETIMEDOUT || left <= 0) return result;
  }
}

}  // extern "C"
