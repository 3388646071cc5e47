#include <gtest/gtest.h>

#include "protocol/wire.hpp"

namespace rekindle::protocol {
namespace {

TEST(Wire, MessagesSurviveTheTrip) {
  Start start;
  start.generation = {3, 7};
  start.rank = 1;
  start.members = {{"a", {"host", "127.0.0.1", "nonce", 42, 5, 1234}}, {}};
  start.restore = "step-0000000009.t2.g1";
  start.step = 9;
  const auto back = decode<ToTrainer>(encode(ToTrainer(start)));
  ASSERT_TRUE(back);
  const auto& copy = std::get<Start>(*back);
  EXPECT_EQ(copy.generation, start.generation);
  EXPECT_EQ(copy.members[0].address.nonce, "nonce");
  EXPECT_EQ(copy.members[0].address.port, 1234);
  EXPECT_EQ(copy.restore, start.restore);
}

TEST(Wire, RegistrationsSurviveTheTripWithAndWithoutWhatIsOptional) {
  Registration registration{"w", "h", "b", 2, {TrainerState{}, TrainerState{}}};
  registration.trainers[1].started = Start{};
  registration.trainers[1].started->step = 7;
  registration.trainers[1].parked = Parked{};
  const auto back = decode<Registration>(encode(registration));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->trainers.size(), 2U);
  EXPECT_FALSE(back->trainers[0].started);
  EXPECT_EQ(back->trainers[1].started->step, 7U);
  EXPECT_TRUE(back->trainers[1].parked);
  EXPECT_FALSE(decode<Registration>("{\"worker\":3}"));
}

TEST(Wire, GarbageIsAnErrorNeverAnException) {
  for (const char* text :
       {"", "{", "[]", "{\"type\":\"start\"}", "{\"type\":\"nobody\",\"body\":{}}",
        "{\"type\":\"start\",\"body\":{\"rank\":\"one\"}}", "{\"type\":3,\"body\":{}}", "\xff\xfe"}) {
    EXPECT_FALSE(decode<ToTrainer>(text)) << text;
    EXPECT_FALSE(decode<FromTrainer>(text)) << text;
  }
}

TEST(Wire, BytesThatAreNotUtf8DoNotThrow) {
  const auto back =
      decode<FromTrainer>(encode(FromTrainer(ShardFailed{{1, 1}, "t", 3, "cannot write \xff\xfe"})));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<ShardFailed>(*back).step, 3U);
}

TEST(Wire, NewerGenerationsCompareGreater) {
  EXPECT_LT((GenerationId{1, 9}), (GenerationId{2, 1}));
  EXPECT_LT((GenerationId{2, 1}), (GenerationId{2, 2}));
}

}  // namespace
}  // namespace rekindle::protocol
