// The end of a process, however this kernel tells it (tests/process/old_kernel_test.cpp runs these tests,
// too).
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <tuple>

#include "base/process.hpp"

namespace rekindle {
namespace {

constexpr int kLongMs = 120000;
constexpr int kSomeLooksMs = 400;

bool ends_within(const Child& child, int ms) {
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, ms) == 1 && (ended.revents & POLLIN) != 0;
}

template <class Life>
Child child_that(Life life) {
  Child child;
  child.pid = ::fork();
  if (child.pid == 0) {
    life();
    ::_exit(0);
  }
  auto watched = watch_process(child.pid);
  EXPECT_TRUE(watched) << watched.error().line();
  if (watched) child.pidfd = std::move(*watched);
  return child;
}

TEST(WatchProcess, AChild_EndsWhenItIsKilled) {
  const Child child = child_that([] { ::pause(); });
  EXPECT_FALSE(ends_within(child, kSomeLooksMs));
  kill_child(child, SIGKILL);
  EXPECT_TRUE(ends_within(child, kLongMs));
  EXPECT_EQ(wait_for(child).code, SIGKILL);
  kill_child(child, SIGKILL);  // nobody
}

// Its first thread is a zombie meanwhile. Whoever waited for the process now would wait for the other thread.
TEST(WatchProcess, AChildWithoutItsFirstThread_LivesOn) {
  const Child child = child_that([] {
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);  // pthread_exit() would unwind the stack of the test
  });
  EXPECT_FALSE(ends_within(child, kSomeLooksMs));
  kill_child(child, SIGKILL);
  EXPECT_TRUE(ends_within(child, kLongMs));
  wait_for(child);
}

TEST(WatchProcess, AZombie_HasEnded) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(3);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  auto watched = watch_process(pid);
  ASSERT_TRUE(watched) << watched.error().line();
  const Child child{pid, std::move(*watched)};
  EXPECT_TRUE(ends_within(child, kLongMs));
  EXPECT_EQ(wait_for(child).code, 3);
}

TEST(WatchProcess, AProcessThatIsNoChild_EndsWithIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Child parent = child_that([&ends] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    std::ignore = ::write(ends[1], &pid, sizeof pid);
    ::pause();
  });
  pid_t pid = -1;
  ASSERT_EQ(::read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  auto watched = watch_process(pid);
  ASSERT_TRUE(watched) << watched.error().line();
  const Child other{pid, std::move(*watched)};
  EXPECT_FALSE(ends_within(other, kSomeLooksMs));
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(ends_within(other, kLongMs));
  kill_child(parent, SIGKILL);
  wait_for(parent);
  for (const int end : ends) ::close(end);
}

TEST(WatchProcess, NoProcess_IsAnError) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(watch_process(pid));
}

}  // namespace
}  // namespace rekindle
