// The holder of a run: claims, their ends, and holders that have died.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "run_directory_fixture.hpp"

namespace rekindle::run {
namespace {

TEST_F(RunDirectory, FirstClaimIsTermOneAndALiveHolderKeepsIt) {
  EXPECT_EQ(claim().value_or(0), 1U);
  const auto second = claim();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ExitCode::kConfig);
}

TEST_F(RunDirectory, HeldByASlurmJob_TheMessageNamesTheJob) {
  Holder holder;
  holder.host = "n1";
  holder.pid = 4711;
  EXPECT_NE(held_error(layout_, holder).line().find("pid 4711"), std::string::npos);
  holder.slurm_job = "12";
  const std::string line = held_error(layout_, holder).line();
  EXPECT_NE(line.find("Slurm job 12"), std::string::npos) << line;
  EXPECT_NE(line.find("scancel 12"), std::string::npos) << line;
  EXPECT_EQ(line.find("4711"), std::string::npos) << line;
}

TEST_F(RunDirectory, EndedTerm_NextClaimIsImmediate) {
  ASSERT_TRUE(claim());
  ASSERT_TRUE(end_term(layout_, 1));
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, TermOfADeadSupervisor_SucceededOnceAndNotAfterAnother) {
  write_term(1, "elsewhere", "x", 1);
  ASSERT_TRUE(end_term(layout_, 1, TermEnd::kOrphaned) && !newest_term(layout_).value()->ended)
      << "it is not its own";
  std::ofstream((layout_.terms() / "0001.ended").path()) << "2031-02-03T04:05:06Z orphaned\n";
  EXPECT_TRUE(newest_term(layout_).value()->orphaned);
  const auto succeed = [&] {
    return claim_term(layout_, {.patience = std::chrono::milliseconds(1),
                                .answers = [](const Holder&) { return false; },
                                .lost = 1});
  };
  EXPECT_EQ(succeed().value_or(0), 2U);
  write_term(3, "elsewhere", "x", 1);  // another process's term follows this process's term
  std::ofstream((layout_.terms() / "0003.ended").path()) << "2031-02-03T04:05:06Z\n";
  const auto late = succeed();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ExitCode::kConfig);
}

TEST_F(RunDirectory, OrderlyEnd_IsNoOrphan) {
  ASSERT_TRUE(claim());
  ASSERT_TRUE(end_term(layout_, 1));
  const auto holder = newest_term(layout_).value();
  EXPECT_TRUE(holder->ended);
  EXPECT_FALSE(holder->orphaned);
}

TEST_F(RunDirectory, DeadHolderOnThisHost_TakenOver) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(claim().value_or(0) == 1 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, ReusedPid_IsNotTheHolder) {
  write_term(1, host_name(), boot_id(), ::getpid());  // this pid, but another start time
  EXPECT_EQ(claim().value_or(0), 2U);
}

TEST_F(RunDirectory, HolderInAnotherContainerOfThisHost_GoneOnlyWhenItsPortIsSilent) {
  write_term(1, host_name(), boot_id(), 1 << 22, "pid:[1]");  // no such process here
  EXPECT_FALSE(claim(true));
  EXPECT_EQ(claim(false).value_or(0), 2U);
}

// It was booted since, or it is another machine of this name.
TEST_F(RunDirectory, HostOfThisNameAndAnotherBoot_GoneOnlyWhenItsPortIsSilent) {
  write_term(1, host_name(), "another boot", 1);  // long ago
  EXPECT_TRUE(looks_gone(**newest_term(layout_)));
  EXPECT_FALSE(claim(true));
  EXPECT_EQ(claim(false).value_or(0), 2U);
}

TEST_F(RunDirectory, HostOfThisNameThatWasNotBootedSince_IsNotShownAsGone) {
  write_term(1, host_name(), "another boot", 1, pid_namespace(), utc_now());
  EXPECT_FALSE(looks_gone(**newest_term(layout_)));
}

TEST_F(RunDirectory, CopyOfTheDirectoryOfALiveRun_IsNotHeld) {
  ASSERT_EQ(claim().value_or(0), 1U);
  const TemporaryDirectory other;
  const Layout copy(other.path() / "copy"), moved(other.path() / "moved");
  fs::copy(path_, copy.root().path(), fs::copy_options::recursive);
  EXPECT_TRUE(newest_term(copy).value()->ended);
  EXPECT_FALSE(newest_term(layout_).value()->ended);
  fs::rename(path_, moved.root().path());
  EXPECT_FALSE(newest_term(moved).value()->ended) << "the same directory under another name";
  const auto claimed =
      claim_term(copy, {.patience = std::chrono::hours(1), .answers = [](const Holder&) { return true; }});
  EXPECT_EQ(claimed.value_or(0), 2U);
  EXPECT_FALSE(newest_term(copy).value()->ended);
}

TEST_F(RunDirectory, AnotherPathToALiveRun_IsHeldWhateverItsInode) {
  ASSERT_EQ(claim().value_or(0), 1U);
  const TemporaryDirectory other;
  fs::copy(path_, other.path(), fs::copy_options::recursive);
  const Layout seen(other.path());
  std::ofstream(seen.status().path()) << "{}";
  EXPECT_FALSE(newest_term(seen).value()->ended);
  fs::last_write_time(seen.status().path(), fs::file_time_type::clock::now() - std::chrono::seconds(20));
  EXPECT_TRUE(newest_term(seen).value()->ended) << "a copy, whose files nobody writes";
}

TEST_F(RunDirectory, InodeOfMoreThan63Bits_CanBeReadAgain) {
  write_claim(1, {{"host", "n7"}, {"directory_inode", "18446744073709551615"}});
  EXPECT_EQ(newest_term(layout_).value()->directory_inode, UINT64_MAX);
}

// Of earlier versions.
TEST_F(RunDirectory, CopyWhoseClaimNamesNoDirectory_IsHeld) {
  ASSERT_EQ(claim().value_or(0), 1U);
  const fs::path file = (layout_.terms() / "0001").path();
  nlohmann::json holder = nlohmann::json::parse(std::ifstream(file));
  ASSERT_EQ(holder.erase("directory_inode"), 1U);
  std::ofstream(file) << holder;
  const TemporaryDirectory other;
  fs::copy(path_, other.path(), fs::copy_options::recursive);
  EXPECT_FALSE(newest_term(Layout(other.path())).value()->ended);
}

TEST_F(RunDirectory, HolderThatNobodyReaped_TakenOver) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(claim().value_or(0) == 1 ? 0 : 1);
  siginfo_t end{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);  // stays a zombie
  EXPECT_EQ(end.si_status, 0);
  EXPECT_EQ(claim().value_or(0), 2U);
  ::waitpid(child, nullptr, 0);
}

TEST_F(RunDirectory, HolderOnAnotherHost_GoneOnlyWhenItsPortIsSilent) {
  write_term(1, "elsewhere", "x", 1);
  EXPECT_FALSE(claim(true));
  EXPECT_EQ(claim(false).value_or(0), 2U);
}

TEST_F(RunDirectory, WaitForASilentHolder_AnnouncedOnceAndEndedWhenGivenUp) {
  write_term(1, "elsewhere", "x", 1);
  int announced = 0, tries = 0;
  const auto claimed = claim_term(layout_, {.patience = std::chrono::hours(1),
                                            .answers = [](const Holder&) { return false; },
                                            .waits =
                                                [&](const Holder& holder) {
                                                  ++announced;
                                                  EXPECT_EQ(holder.host, "elsewhere");
                                                },
                                            .given_up = [&] { return ++tries == 3; }});
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(announced, 1);
  EXPECT_FALSE(path_exists(layout_.terms() / "0002"));
}

TEST_F(RunDirectory, WinnerOfTheRaceForASilentTerm_IsAskedBeforeItIsReplaced) {
  write_term(1, "elsewhere", "x", 1);
  bool winner_asked = false;
  const auto claimed =
      claim_term(layout_, {.patience = std::chrono::milliseconds(1), .answers = [&](const Holder& holder) {
                             winner_asked = winner_asked || holder.term == 2;
                             if (holder.term == 1) write_term(2, "winner", "y", 1);
                             return false;
                           }});
  EXPECT_EQ(claimed.value_or(0), 3U);
  EXPECT_TRUE(winner_asked);
}

TEST_F(RunDirectory, ClaimsAtOnce_OneWinner) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!claim()) ::_exit(1);
      for (;;) ::pause();  // stays alive while the others try, because they may replace a dead holder
    }
  }
  int winners = 0, losers = 0;
  while (winners + losers < 8) {
    int status = 0;
    ::wait(&status);
    const bool lost = WIFEXITED(status) && WEXITSTATUS(status) == 1;
    ++(lost ? losers : winners);
    if (losers < 7) continue;
    for (const pid_t child : children) ::kill(child, SIGKILL);
  }
  EXPECT_EQ(winners, 1);
}

}  // namespace
}  // namespace rekindle::run
