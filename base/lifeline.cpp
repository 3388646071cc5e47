#include "base/lifeline.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/text.hpp"

namespace rekindle {

struct Lifeline::Shared {
  pthread_mutex_t mutex;
};

Result<Lifeline> Lifeline::make() {
  Fd fd(::memfd_create("rekindle-lifeline", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), sizeof(Shared)) != 0)
    return fail(str("shared memory for a child process: ", std::strerror(errno)));
  REKINDLE_TRY(Lifeline line, map(std::move(fd)));
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&line.shared_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) return fail(str("a mutex between processes: ", std::strerror(error)));
  return line;
}

Result<Lifeline> Lifeline::take(Fd fd) { return map(std::move(fd)); }

Result<Lifeline> Lifeline::map(Fd fd) {
  void* data = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return fail(str("cannot map a lifeline: ", std::strerror(errno)));
  return Lifeline(std::move(fd), static_cast<Shared*>(data));
}

Lifeline::Lifeline(Lifeline&& other) noexcept
    : fd_(std::move(other.fd_)), shared_(std::exchange(other.shared_, nullptr)) {}

Lifeline::~Lifeline() {
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

Status Lifeline::hold() {
  const int error = pthread_mutex_lock(&shared_->mutex);
  if (error != 0) return fail(str("cannot hold a lifeline: ", std::strerror(error)));
  return {};
}

namespace {
int lock_until(pthread_mutex_t* mutex, const timespec& until) {
#if defined(__SANITIZE_THREAD__)
  // Its run-time does not know a timed lock that reports a dead owner, and reports the unlock as an error.
  for (;;) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const int error = pthread_mutex_trylock(mutex);
    if (error != EBUSY) return error;
    if (std::pair(now.tv_sec, now.tv_nsec) >= std::pair(until.tv_sec, until.tv_nsec)) return ETIMEDOUT;
    ::usleep(1000);
  }
#else
  return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
#endif
}
}  // namespace

bool Lifeline::wait_until_cut(std::chrono::milliseconds limit) {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  const auto ns = std::chrono::nanoseconds(limit).count() + until.tv_nsec;
  until.tv_sec += ns / 1'000'000'000;
  until.tv_nsec = ns % 1'000'000'000;
  const int error = lock_until(&shared_->mutex, until);
  if (error == ETIMEDOUT) return false;
  // All other results mean that the process is dying. Unlock, because a thread must not end, and memory must
  // not be unmapped, with a locked mutex.
  if (error == EOWNERDEAD) pthread_mutex_consistent(&shared_->mutex);
  if (error == 0 || error == EOWNERDEAD) pthread_mutex_unlock(&shared_->mutex);
  return true;
}

}  // namespace rekindle
