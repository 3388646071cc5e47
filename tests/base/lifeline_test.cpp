#include "base/lifeline.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/process.hpp"

namespace rekindle {
namespace {

constexpr std::chrono::minutes kLong{2};

// A child that holds `line`, reports this, and then calls `then`.
Child child_that_holds(Lifeline& line, const std::function<void()>& then) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe(ends), 0);
  Child child;
  child.pid = ::fork();
  if (child.pid == 0) {
    const bool held = line.hold() && ::write(ends[1], "x", 1) == 1;
    if (held) then();
    ::_exit(99);
  }
  if (auto watched = watch_process(child.pid)) child.pidfd = std::move(*watched);
  ::close(ends[1]);
  char said = 0;
  EXPECT_EQ(::read(ends[0], &said, 1), 1);
  ::close(ends[0]);
  return child;
}

Lifeline make() {
  auto line = Lifeline::make();
  EXPECT_TRUE(line) << line.error().line();
  return std::move(*line);
}

TEST(Lifeline, IsCutByAKillWhoseSignalIsKnown) {
  Lifeline line = make();
  const Child child = child_that_holds(line, [] { ::pause(); });
  kill_child(child, SIGKILL);
  ASSERT_TRUE(line.wait_until_cut(kLong));
  const auto status = status_of_dying(child);
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->by_signal);
  EXPECT_EQ(status->code, SIGKILL);
  EXPECT_EQ(wait_for(child).code, SIGKILL);
}

TEST(Lifeline, IsCutByACrashAndByAnExit) {
  Lifeline line = make();
  const Child crashed = child_that_holds(line, [] { ::raise(SIGSYS); });
  ASSERT_TRUE(line.wait_until_cut(kLong));
  EXPECT_EQ(status_of_dying(crashed)->code, SIGSYS);
  wait_for(crashed);
  Lifeline other = make();
  const Child left = child_that_holds(other, [] { ::_exit(70); });
  ASSERT_TRUE(other.wait_until_cut(kLong));
  EXPECT_FALSE(status_of_dying(left)->by_signal);
  EXPECT_EQ(status_of_dying(left)->code, 70);
  wait_for(left);
}

TEST(Lifeline, IsWholeWhileItsHolderLives) {
  Lifeline line = make();
  const Child child = child_that_holds(line, [] { ::pause(); });
  EXPECT_FALSE(line.wait_until_cut(std::chrono::milliseconds(10)));
  kill_child(child, SIGKILL);
  wait_for(child);
}

// 0 may also mean that /proc has no answer.
TEST(Lifeline, AGoodEndIsKnownAtTheEnd) {
  Lifeline line = make();
  const Child child = child_that_holds(line, [] { ::_exit(0); });
  ASSERT_TRUE(line.wait_until_cut(kLong));
  EXPECT_FALSE(status_of_dying(child));
  EXPECT_EQ(wait_for(child).code, 0);
}

}  // namespace
}  // namespace rekindle
