// At every file system call of a claim the claimant may die, the power may fail, the call may fail, or
// another process may claim. No term is given twice, and no claim blocks the run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

#include "../checkpoint/shim.hpp"
#include "../temporary_directory.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "run/terms.hpp"

namespace rekindle::run {
namespace {

using checkpoint::Fault;
using checkpoint::Journal;
using checkpoint::Shim;
using checkpoint::Survival;
using Kind = Fault::Kind;
using Rule = Survival::Rule;

// One try. Every holder counts as gone.
Result<std::uint64_t> claim(const fs::path& run) {
  return claim_term(Layout(run), {.patience = std::chrono::milliseconds(0),
                                  .answers = [](const Holder&) { return false; },
                                  .given_up = [] { return true; }});
}

// After a restart: the claim of `promised` is there, and the next claimant gets a later term. Returns the
// error.
std::string flaw(const fs::path& run, std::uint64_t promised) {
  const auto holder = newest_term(Layout(run));
  if (!holder) return holder.error().line();
  const std::uint64_t newest = *holder ? (*holder)->term : 0;
  if (newest < promised) return str("the claim of term ", promised, " is lost");
  const auto next = claim(run);
  if (!next) return next.error().line();
  return *next > newest ? "" : str("term ", *next, " is given twice");
}

class ClaimCrashPoints : public testing::TestWithParam<std::uint64_t> {
 protected:
  // The terms that have been claimed before, and have ended.
  std::uint64_t before() const { return GetParam(); }
  void start_again() {
    fs::remove_all(run_);
    fs::create_directories(run_);
    for (std::uint64_t term = 1; term <= before(); ++term) {
      ASSERT_EQ(claim(run_).value_or(0), term);
      ASSERT_TRUE(end_term(Layout(run_), term));
    }
  }
  // The first flaw among the disks that a power loss after the first `operations` may leave.
  std::string flaw_of_disks(const Journal& journal, std::size_t operations, std::uint64_t promised,
                            int random) {
    for (int i = 0; i < random + 2; ++i) {
      const Survival survival{i == 0   ? Rule::kNothing
                              : i == 1 ? Rule::kAll
                                       : Rule::kRandom,
                              operations * 1000 + static_cast<std::size_t>(i)};
      journal.rebuild(operations, survival, disk_);
      const Shim shim(disk_);
      const std::string found = flaw(disk_, promised);
      if (!found.empty())
        return str(found, " (power lost after operation ", operations, ", seed ", survival.seed, ")");
    }
    return "";
  }
  struct Recording {
    Journal journal;
    std::size_t claimed_at;
  };
  Recording record() {
    start_again();
    const Shim shim(run_);
    EXPECT_EQ(claim(run_).value_or(0), before() + 1);
    const std::size_t claimed_at = shim.journal().size();
    EXPECT_TRUE(end_term(Layout(run_), before() + 1));
    return {shim.journal(), claimed_at};
  }

  TemporaryDirectory directory_;
  const fs::path run_ = directory_.path() / "run", disk_ = directory_.path() / "disk";
};
INSTANTIATE_TEST_SUITE_P(Terms, ClaimCrashPoints, ::testing::Values(0, 1), [](const auto& info) {
  return info.param == 0 ? "FirstOfARun" : "AfterOneThatEnded";
});

TEST_P(ClaimCrashPoints, PowerLostAtAnyMoment_NoTermIsGivenTwice) {
  const Recording recording = record();
  const Journal& journal = recording.journal;
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    const bool claimed = operations >= recording.claimed_at;
    ASSERT_EQ(flaw_of_disks(journal, operations, before() + (claimed ? 1 : 0), 6), "");
  }
  journal.rebuild(journal.size(), {Rule::kNothing, 0}, disk_);
  const auto holder = newest_term(Layout(disk_)).value();
  ASSERT_TRUE(holder && holder->ended) << "the end was promised, too";
}

// The check above must be able to fail.
TEST_P(ClaimCrashPoints, Planted_AnFsyncThatDoesNothingIsFound) {
  const Recording recording = record();
  for (const bool of_directories : {false, true}) {
    const Journal planted = recording.journal.without_syncs(of_directories);
    EXPECT_NE(flaw_of_disks(planted, planted.size(), before() + 1, 0), "");
  }
}

// What the dead claimant had not fsynced is still there when the next claimant starts, and is lost later.
TEST_P(ClaimCrashPoints, KilledAtAnyCallAndPowerLostLater_NoTermIsGivenTwice) {
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    std::optional<Shim> shim(run_);
    shim->arm({Kind::kStopped}, n);
    const auto first = claim(run_);
    if (first) std::ignore = end_term(Layout(run_), *first);
    killed = shim->struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim->struck_call()));
    shim->disarm();

    const std::uint64_t promised = first ? *first : before();
    const std::size_t restarted = shim->journal().size();
    const auto second = claim(run_);
    ASSERT_TRUE(second) << second.error().line();
    ASSERT_GT(*second, promised);
    const Journal journal = shim->journal();
    shim.reset();
    for (std::size_t operations = restarted; operations <= journal.size(); ++operations)
      ASSERT_EQ(flaw_of_disks(journal, operations, operations < journal.size() ? promised : *second, 2), "");
  }
}

TEST_P(ClaimCrashPoints, AnyCallFailsInAnyWay_ReportedAndNoTermIsGivenTwice) {
  const Fault repeated{Kind::kDoneButReported, EEXIST};  // network storage has made a call twice
  for (const Fault& fault :
       {Fault{Kind::kRefused, EIO}, Fault{Kind::kRefused, ENOSPC}, Fault{Kind::kRefused, EINTR},
        Fault{Kind::kRefused, EIO, true}, Fault{Kind::kDoneButReported, EIO}, repeated, Fault{Kind::kShort},
        Fault{Kind::kNothing}}) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      start_again();
      std::optional<Shim> shim(run_);
      shim->arm(fault, n);
      const auto claimed = claim(run_);
      struck = shim->struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim->struck_call()));
      shim->disarm();
      const bool linked_twice = fault.error == EEXIST && shim->struck_call().starts_with("link");
      if (!struck || linked_twice || fault.kind == Kind::kShort) {
        ASSERT_TRUE(claimed) << claimed.error().line();
      }
      const std::uint64_t promised = claimed ? *claimed : before();
      const Journal journal = shim->journal();
      ASSERT_EQ(flaw(run_, promised), "");
      shim.reset();
      ASSERT_EQ(flaw_of_disks(journal, journal.size(), promised, 2), "");
    }
  }
}

// exFAT, folders of a virtual machine's host, SMB, object stores.
TEST_P(ClaimCrashPoints, StorageWithoutHardLinks_IsNamed) {
  for (const int error : {EPERM, EOPNOTSUPP, ENOSYS}) {
    bool linked = false;
    for (std::size_t n = 0; !linked; ++n) {
      start_again();
      Shim shim(run_);
      shim.arm({Kind::kRefused, error}, n);
      const auto claimed = claim(run_);
      ASSERT_TRUE(shim.struck()) << "no call links";
      linked = shim.struck_call().starts_with("link");
      if (!linked) continue;
      ASSERT_FALSE(claimed);
      EXPECT_EQ(claimed.error().code, ExitCode::kGaveUp) << "a coordinator that was restarted tries again";
      EXPECT_NE(claimed.error().line().find("this storage has no hard links"), std::string::npos)
          << claimed.error().line();
    }
  }
}

TEST_P(ClaimCrashPoints, AnotherProcessClaimsBeforeAnyCall_BothHaveTermsOfTheirOwn) {
  bool interrupted = true;
  int lost = 0, followed = 0;
  for (std::size_t n = 0; interrupted; ++n) {
    start_again();
    Shim shim(run_);
    std::uint64_t others = 0;
    shim.interrupt(n, [&] { others = claim(run_).value_or(0); });
    const auto own = claim(run_);
    interrupted = shim.interrupted();
    SCOPED_TRACE(str("interrupted at call ", n));
    ASSERT_TRUE(own || own.error().kind == ErrorKind::kAborted) << own.error().line();
    ASSERT_EQ(others > 0, interrupted) << "the other one was hindered";
    ASSERT_TRUE(own || interrupted);
    ASSERT_NE(own.value_or(0), others);
    ++(own ? followed : lost);
    ASSERT_EQ(flaw(run_, std::max(own.value_or(0), others)), "");
  }
  EXPECT_GT(lost, 0) << "no claimant has met the other's claim";
  EXPECT_GT(followed, 0);
}

}  // namespace
}  // namespace rekindle::run
