// The file `newest` names the checkpoint that was committed last. At every call of a commit, of the note and
// of the sweep after it the process may die, the power may fail or the call may fail: the note never names a
// checkpoint that a resume would wait for in vain.
#include <optional>
#include <tuple>

#include "crash_points_fixture.hpp"

namespace rekindle::checkpoint {
namespace {

using Kind = Fault::Kind;

class NewestCrashPoints : public CrashPoints {
 protected:
  static FilePath note_of(const fs::path& run) { return own(run) / "newest"; }
  // As a coordinator does it (actors/commits.cpp).
  static Status commit_and_note(const fs::path& run, const CheckpointId& id) {
    REKINDLE_CHECK(write_and_commit(own(run), id));
    REKINDLE_CHECK(note_newest(note_of(run), id));
    return sweep(own(run), {id, kKeep});
  }
  void begin() {
    start_again();
    ASSERT_TRUE(note_newest(note_of(run), kOld));
  }
  // What a resume waits for, though it will never be there.
  static std::string flaw_of_note(const fs::path& run) {
    const auto awaited = await_newest(own(run), note_of(run), std::chrono::milliseconds(0), {});
    return awaited ? str("the note names ", awaited->directory_name(), ", which is not there") : "";
  }
  // `go_on`: the run also writes its next checkpoint and notes it.
  std::string flaw_of_notes(const Journal& journal, std::size_t operations, int random, bool go_on) {
    return flaw_of_each_disk(journal, operations, random, [&]() -> std::string {
      const std::string found = flaw_of_note(disk);
      if (!found.empty() || !go_on) return found;
      if (const Status later = commit_and_note(disk, kLater); !later) return later.error().line();
      return noted_newest(note_of(disk)) != kLater ? "the next one is not noted" : flaw_of_note(disk);
    });
  }
};

TEST_F(NewestCrashPoints, PowerLostAtAnyMoment_NothingIsAwaitedInVain) {
  begin();
  std::optional<Shim> shim(run);
  ASSERT_TRUE(commit_and_note(run, kNew));
  const Journal journal = shim->journal();
  shim.reset();
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_notes(journal, operations, 6, true), "");
  }
  journal.rebuild(journal.size(), {Rule::kAll, 0}, disk);
  EXPECT_EQ(noted_newest(note_of(disk)), kNew);
}

// The check above must be able to fail.
TEST_F(NewestCrashPoints, Planted_ANoteBeforeTheCommitIsFound) {
  begin();
  std::optional<Shim> shim(run);
  ASSERT_TRUE(note_newest(note_of(run), kNew));
  const std::size_t noted = shim->journal().size();
  ASSERT_TRUE(write_and_commit(own(run), kNew));
  const Journal journal = shim->journal();
  shim.reset();
  EXPECT_NE(flaw_of_notes(journal, noted, 0, false), "");
}

TEST_F(NewestCrashPoints, KilledAtAnyCallAndPowerLostLater_NothingIsAwaitedInVain) {
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    begin();
    std::optional<Shim> shim(run);
    shim->arm({Kind::kStopped}, n);
    std::ignore = commit_and_note(run, kNew);
    killed = shim->struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim->struck_call()));
    shim->disarm();
    const std::size_t restarted = shim->journal().size();
    ASSERT_EQ(flaw_of_note(run), "");
    ASSERT_TRUE(commit_and_note(run, kNext));
    ASSERT_EQ(noted_newest(note_of(run)), kNext);
    const Journal journal = shim->journal();
    shim.reset();
    ASSERT_EQ(flaw_of_notes(journal, restarted, 2, false), "");
    ASSERT_EQ(flaw_of_notes(journal, journal.size(), 2, true), "");
  }
}

TEST_F(NewestCrashPoints, AnyCallOfTheNoteFails_ReportedAndNothingIsAwaitedInVain) {
  for (const Fault& fault :
       {Fault{Kind::kRefused, EIO}, Fault{Kind::kRefused, ENOSPC, true}, Fault{Kind::kRefused, EINTR},
        Fault{Kind::kDoneButReported, EIO}, Fault{Kind::kShort}, Fault{Kind::kNothing}}) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      begin();
      ASSERT_TRUE(write_and_commit(own(run), kNew));
      Shim shim(run);
      shim.arm(fault, n);
      const Status noted = note_newest(note_of(run), kNew);
      struck = shim.struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
      shim.disarm();
      if (!struck || fault.kind == Kind::kShort) {
        ASSERT_TRUE(noted) << noted.error().line();
      }
      const auto named = noted_newest(note_of(run));
      ASSERT_TRUE(named == kNew || (!noted && named == kOld));
      ASSERT_EQ(flaw_of_note(run), "");
    }
  }
}

}  // namespace
}  // namespace rekindle::checkpoint
