// One generation: its ranks, and the members of earlier generations.
#include "protocol/generation.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

TEST(Generation, RankIsThePlaceInTheListOfMembers) {
  const Generation generation{{2, 5}, {"b.0", "a.1", "a.0"}, {"a.0"}, 40};
  EXPECT_EQ(generation.rank_of("b.0"), 0);
  EXPECT_EQ(generation.rank_of("a.1"), 1);
  EXPECT_EQ(generation.rank_of("a.0"), 2);
  for (const char* member : {"b.0", "a.1", "a.0"}) EXPECT_TRUE(generation.has(member)) << member;
}

// Callers compare the rank with the number of members, so the rank of another trainer must not be that of a
// member.
TEST(Generation, TrainerThatIsNoMember_HasNoMembersRank) {
  const Generation generation{{2, 5}, {"b.0", "a.1"}, {}, 0};
  for (const char* trainer : {"a.0", "b", "b.00", ""}) {
    EXPECT_FALSE(generation.has(trainer)) << trainer;
    EXPECT_EQ(generation.rank_of(trainer), 2) << trainer;
  }
  const Generation none;
  EXPECT_FALSE(none.has(""));
  EXPECT_EQ(none.rank_of(""), 0);
}

// The coordinator assigns a new generation as a whole: no fact of the one before may remain.
TEST(Generation, ANewOne_BeginsWithoutFactsOfTheOneBefore) {
  Generation generation{{1, 1}, {"a.0", "b.0"}, {"a.0"}, 10, true};
  generation.gone = {"b.0"};
  generation.newcomers_since = Time(7);
  generation.pause_asked = true;
  generation.suspect_link = {0, 1};
  generation = Generation{{1, 2}, {"a.0"}, {"a.0"}, 12};
  EXPECT_EQ(generation.id, (GenerationId{1, 2}));
  EXPECT_EQ(generation.began, 12U);
  EXPECT_FALSE(generation.saves);
  EXPECT_TRUE(generation.gone.empty());
  EXPECT_FALSE(generation.newcomers_since);
  EXPECT_FALSE(generation.pause_asked);
  EXPECT_FALSE(generation.suspect_link);
}

TEST(PastGenerations, LateReportOfAShard_FindsTheMembersByRank) {
  PastGenerations past;
  EXPECT_EQ(past.members_of({1, 1}), nullptr);
  past.remember({{1, 1}, {"a.0", "b.0"}, {}, 0});
  past.remember({{2, 1}, {"b.0", "c.0"}, {}, 0});  // the same number, in another term
  ASSERT_NE(past.members_of({1, 1}), nullptr);
  EXPECT_EQ(*past.members_of({1, 1}), (std::vector<std::string>{"a.0", "b.0"}));
  ASSERT_NE(past.members_of({2, 1}), nullptr);
  EXPECT_EQ(*past.members_of({2, 1}), (std::vector<std::string>{"b.0", "c.0"}));
  EXPECT_EQ(past.members_of({1, 2}), nullptr);
  EXPECT_EQ(past.members_of({3, 1}), nullptr);
}

TEST(PastGenerations, OnlyTheLast16AreKept) {
  PastGenerations past;
  for (std::uint64_t number = 1; number <= 20; ++number)
    past.remember({{1, number}, {str("trainer-", number)}, {}, 0});
  for (std::uint64_t number = 1; number <= 4; ++number)
    EXPECT_EQ(past.members_of({1, number}), nullptr) << number;
  for (std::uint64_t number = 5; number <= 20; ++number) {
    const auto* const members = past.members_of({1, number});
    ASSERT_NE(members, nullptr) << number;
    EXPECT_EQ(members->front(), str("trainer-", number));
  }
}

TEST(Generation, RankOfAMessage_NamesAMemberOrNone) {
  Generation generation;
  generation.members = {"a", "b"};
  EXPECT_EQ(*generation.member(1), "b");
  EXPECT_TRUE(generation.has("b", 1));
  EXPECT_FALSE(generation.has("a", 1));
  for (const int rank : {-1, 2, 1000}) EXPECT_EQ(generation.member(rank), nullptr) << rank;
}

TEST(Generation, BrokenInvariant_IsFound) {
  Generation generation;
  generation.members = {"a"};
  generation.sources = {"a"};
  EXPECT_NO_THROW(generation.check());
  generation.pause_asked = true;
  EXPECT_THROW(generation.check(), std::logic_error);
  generation.newcomers_since = Time(1);
  EXPECT_NO_THROW(generation.check());
  generation.saves = true;
  EXPECT_THROW(generation.check(), std::logic_error);
  generation = {.id = {1, 1}, .members = {"a"}, .sources = {"a", "b"}};
  EXPECT_THROW(generation.check(), std::logic_error);
}

}  // namespace
}  // namespace rekindle::protocol
