// A process that inherits the children of dead processes, as the first process of a container does.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>

#include "base/command.hpp"
#include "base/process.hpp"

namespace rekindle {
namespace {

void wait_until_ended(const Child& child) {
  constexpr int kLongMs = 120000;
  pollfd ended{child.pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, kLongMs), 1);
}

class Orphans : public ::testing::Test {
 protected:
  // This process inherits from its descendants, although its pid is not 1 (prctl(2)).
  Orphans() {
    EXPECT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    reap_orphans();  // what other tests of this process have left
  }
  ~Orphans() override { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }

  // A process whose parent, a shell, has ended.
  static Child inherited() {
    const auto shell =
        run_command({"sh", "-c", "sleep 1000 > /dev/null 2>&1 & echo $!"}, std::chrono::seconds(60));
    EXPECT_TRUE(shell && shell->ok());
    Child orphan;
    orphan.pid = std::stoi(shell->out);
    auto watched = watch_process(orphan.pid);
    EXPECT_TRUE(watched) << watched.error().line();
    if (watched) orphan.pidfd = std::move(*watched);
    return orphan;
  }
};

TEST_F(Orphans, OneThatHasEnded_IsReapedAndALivingOneIsNot) {
  const Child orphan = inherited();
  EXPECT_EQ(stat_field(orphan.pid, 4), static_cast<std::uint64_t>(::getpid())) << "proc(5): the parent";
  EXPECT_EQ(reap_orphans(), 0U);
  EXPECT_TRUE(is_running(orphan.pid));
  ::kill(orphan.pid, SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_until_ended(orphan));
  EXPECT_NE(stat_field(orphan.pid, 22), 0U) << "a zombie";
  EXPECT_EQ(reap_orphans(), 1U);
  EXPECT_EQ(stat_field(orphan.pid, 22), 0U) << "gone";
}

TEST_F(Orphans, AnOwnChildThatHasEndedBefore_KeepsItsExitStatus) {
  const auto own = spawn({"sh", "-c", "exit 3"}, {}, {});
  ASSERT_TRUE(own) << own.error().line();
  ASSERT_NO_FATAL_FAILURE(wait_until_ended(*own));
  EXPECT_EQ(reap_orphans(), 0U);
  const Child orphan = inherited();
  ::kill(orphan.pid, SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_until_ended(orphan));
  EXPECT_EQ(reap_orphans(), 1U);
  const ExitStatus status = wait_for(*own);
  EXPECT_FALSE(status.by_signal);
  EXPECT_EQ(status.code, 3);
}

}  // namespace
}  // namespace rekindle
