// What a coordinator may still change, given the newest term that it sees.
#include "run/fencing.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.hpp"

namespace rekindle::run {
namespace {

TEST(TermInCharge, IsTheOwnOneUntilAHigherOneIsSeen) {
  EXPECT_EQ(term_in_charge({3, true, false}, 3), 3U);
  EXPECT_EQ(term_in_charge({5, false, false}, 3), 5U);
}

TEST(TermInCharge, AnotherRunInItsPlace_IsAHigherOne) {
  EXPECT_EQ(term_in_charge({3, false, false}, 3), 4U) << "another process claimed the same number";
  EXPECT_EQ(term_in_charge({2, false, true}, 3), 4U) << "the own claim is gone";
}

TEST(TermInCharge, OwnClaimCannotBeSeen_IsUnknown) {
  EXPECT_EQ(term_in_charge({0, false, false}, 3), std::nullopt);
  EXPECT_EQ(term_in_charge({2, false, false}, 3), std::nullopt);
}

// Writes down what is done. A higher term is seen from the call number `taken_over_at` on.
class Storage : public CommitStorage {
 public:
  explicit Storage(std::size_t taken_over_at) : taken_over_at_(taken_over_at) {}
  std::vector<std::string> calls;
  Status manifest;

  Result<std::uint64_t> term_in_charge() override {
    calls.emplace_back("look");
    return calls.size() > taken_over_at_ ? 2U : 1U;
  }
  bool superseded() override {
    calls.emplace_back("quick look");
    return calls.size() > taken_over_at_;
  }
  void await_shards() override { calls.emplace_back("wait"); }
  Status write_manifest() override { return done("manifest", manifest); }
  Status note_newest() override { return done("note", {}); }
  Status sweep() override { return done("sweep", {}); }

 private:
  Status done(const char* what, Status status) {
    calls.emplace_back(what);
    return status;
  }
  std::size_t taken_over_at_;
};

using Calls = std::vector<std::string>;

struct Outcome {
  Calls calls;
  std::uint64_t higher_term = 0;
  bool committed = false;
};
Outcome commit_taken_over_at(std::size_t call) {
  Storage storage(call);
  FencedCommit commit(storage, 1);
  commit.run();
  return {storage.calls, commit.higher_term(), commit.committed().has_value()};
}

TEST(FencedCommit, EachChange_HasItsOwnLookRightBeforeIt) {
  const auto [calls, higher_term, committed] = commit_taken_over_at(100);
  EXPECT_EQ(calls, (Calls{"wait", "look", "manifest", "quick look", "note", "look", "sweep"}));
  EXPECT_EQ(higher_term, 0U);
  EXPECT_TRUE(committed);
}

TEST(FencedCommit, TakenOverWhileItWaitsForShards_CommitsNothing) {
  const auto [calls, higher_term, committed] = commit_taken_over_at(1);
  EXPECT_EQ(calls, (Calls{"wait", "look"}));
  EXPECT_EQ(higher_term, 2U);
  EXPECT_FALSE(committed);
}

TEST(FencedCommit, TakenOverWhileItRenames_NeitherNotesNorSweeps) {
  const auto [calls, higher_term, committed] = commit_taken_over_at(3);
  EXPECT_EQ(calls, (Calls{"wait", "look", "manifest", "quick look"}));
  EXPECT_TRUE(committed);
}

TEST(FencedCommit, TakenOverWhileItNotes_SweepsNothing) {
  const auto [calls, higher_term, committed] = commit_taken_over_at(5);
  EXPECT_EQ(calls, (Calls{"wait", "look", "manifest", "quick look", "note", "look"}));
  EXPECT_EQ(higher_term, 2U);
  EXPECT_TRUE(committed);
}

TEST(FencedCommit, ManifestThatCannotBeWritten_NothingElseIsChanged) {
  Storage storage(100);
  storage.manifest = fail("no space left on device");
  FencedCommit commit(storage, 1);
  commit.run();
  EXPECT_EQ(storage.calls, (Calls{"wait", "look", "manifest"}));
  EXPECT_FALSE(commit.committed());
}

}  // namespace
}  // namespace rekindle::run
