#include <gtest/gtest.h>

#include "protocol/wire.hpp"

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

TEST(Wire, MessagesSurviveTheTrip) {
  Start start;
  start.generation = {3, 7};
  start.rank = 1;
  start.members = std::vector<Member>{{"a", {"host", "127.0.0.1", "nonce", "22809 gpu", 42, 5, 1234}}, {}};
  start.sources = {0, 1, 2, 7, 9, 10};
  start.restore = "step-0000000009.t2.g1";
  start.step = 9;
  const auto back = decode<ToTrainer>(encode(ToTrainer(start)));
  ASSERT_TRUE(back);
  const auto& copy = std::get<Start>(*back);
  EXPECT_EQ(copy.generation, start.generation);
  EXPECT_EQ(copy.sources, start.sources);
  ASSERT_EQ(copy.members.size(), 2U);
  EXPECT_EQ(copy.members[0].address.nonce, "nonce");
  EXPECT_EQ(copy.members[0].address.port, 1234);
  EXPECT_EQ(copy.restore, start.restore);
}

TEST(Wire, RegistrationsSurviveTheTripWithAndWithoutWhatIsOptional) {
  Registration registration{"w", "h", "b", 2, {TrainerState{}, TrainerState{}}};
  registration.trainers[1].started = Start{};
  registration.trainers[1].started->step = 7;
  registration.trainers[1].parked = Paused{};
  registration.directory_inode = std::uint64_t{1} << 63;
  const auto back = decode<Registration>(encode(registration));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->trainers.size(), 2U);
  EXPECT_FALSE(back->trainers[0].started);
  EXPECT_EQ(back->trainers[1].started->step, 7U);
  EXPECT_TRUE(back->trainers[1].parked);
  EXPECT_EQ(back->directory_inode, std::uint64_t{1} << 63);
  EXPECT_FALSE(decode<Registration>("{\"worker\":3}"));
}

// A few bytes must not expand to gigabytes.
TEST(Wire, RanksThatNoRunHas_AreAnError) {
  const std::string good = encode(ToTrainer(Start{}));
  const std::string key = R"("sources":[])";
  ASSERT_NE(good.find(key), std::string::npos) << good;
  for (const char* runs : {"[[0,2000000000]]", "[[2147483647,2]]", "[[-5,3]]", "[[3,-1]]",
                           "[[0,65536],[0,1]]", "[[0]]", "[5]", "{}5"}) {
    std::string text = good;
    text.replace(text.find(key), key.size(), std::string(R"("sources":)") + runs);
    EXPECT_FALSE(decode<ToTrainer>(text)) << runs;
  }
  std::string text = good;
  text.replace(text.find(key), key.size(), R"("sources":[[0,3],[7,1]])");
  const auto start = decode<ToTrainer>(text);
  ASSERT_TRUE(start);
  EXPECT_EQ(std::get<Start>(*start).sources, (std::vector<int>{0, 1, 2, 7}));
}

std::vector<Member> cluster(int workers, int trainers) {
  std::vector<Member> members;
  for (int w = 0; w < workers; ++w) {
    for (int t = 0; t < trainers; ++t) {
      const std::string host = "node" + std::to_string(w), port = std::to_string(100 * w + t);
      members.push_back({"w" + std::to_string(w) + "-ab." + std::to_string(t) + "-1",
                         {host, "10.0.0." + std::to_string(w), "nonce" + port, "22809 gpu" + port, 70000 + w,
                          t == 0 ? -1 : t, static_cast<std::uint16_t>(40000 + t)}});
    }
  }
  return members;
}

TEST(MemberLists, SurviveTheTripInTheTextThatTheyCameIn) {
  const std::vector<Member> members = cluster(5, 3);
  const MemberList sent(members);
  const auto got = MemberList::parse(sent.text());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text(), sent.text());
  ASSERT_EQ(got->size(), members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ((*got)[i].trainer, members[i].trainer);
    EXPECT_EQ(nlohmann::json((*got)[i].address), nlohmann::json(members[i].address));
  }
  EXPECT_EQ(MemberList::parse("")->size(), 0U);
}

// Each member may repeat the name of the previous one: a long name would cost little text and much memory.
TEST(MemberLists, ANameThatNoTrainerHas_IsAnError) {
  std::vector<Member> members(2);
  members[0].trainer = members[1].trainer = std::string(1024, 'x');
  EXPECT_TRUE(MemberList::parse(MemberList(members).text()));
  members[0].trainer = members[1].trainer = std::string(1025, 'x');
  EXPECT_FALSE(MemberList::parse(MemberList(members).text()));
}

TEST(MemberLists, CutAnywhereOrWithABitFlipped_AnErrorOrAnotherListNeverACrash) {
  const MemberList sent(cluster(2, 2));
  const std::string text(sent.text());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto part = MemberList::parse(text.substr(0, i));
    EXPECT_TRUE(!part || part->size() < sent.size());
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x80);
    const auto other = MemberList::parse(flipped);
    EXPECT_TRUE(!other || other->text() == flipped);
  }
}

TEST(Wire, RegistrationOfManyTrainersOfAGeneration_HasItsMembersOnce) {
  Registration registration{"w", "h", "b", 8, std::vector<TrainerState>(8)};
  Start start;
  start.members = cluster(64, 8);
  for (int i = 0; i < 7; ++i) {
    start.rank = i;
    registration.trainers[static_cast<std::size_t>(i)].started = start;
  }
  registration.trainers[7].started = Start{};
  registration.trainers[7].started->members = cluster(1, 2);
  const std::string text = encode(registration);
  EXPECT_LT(text.size(), start.members.text().size() + 16384);
  const auto back = decode<Registration>(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->trainers[6].started->rank, 6);
  EXPECT_EQ(back->trainers[6].started->members.text(), start.members.text());
  EXPECT_EQ(back->trainers[7].started->members.size(), 2U);
  EXPECT_FALSE(decode<Registration>(text.substr(0, text.size() - 1)));
  EXPECT_FALSE(decode<Registration>(first_line(text)));
}

TEST(Wire, GarbageIsAnErrorNeverAnException) {
  for (const char* text :
       {"", "{", "[]", "{\"type\":\"start\"}", "{\"type\":\"nobody\",\"body\":{}}",
        "{\"type\":\"start\",\"body\":{\"rank\":\"one\"}}", "{\"type\":3,\"body\":{}}", "\xff\xfe"}) {
    EXPECT_FALSE(decode<ToTrainer>(text)) << text;
    EXPECT_FALSE(decode<FromTrainer>(text)) << text;
  }
}

TEST(Wire, NameIsReadWithoutTheRest) {
  EXPECT_EQ(name_of(encode(FromTrainer(StepDone{}))), "step-done");
  EXPECT_EQ(name_of(encode(ToTrainer(Start{}))), "start");
  EXPECT_EQ(name_of(R"({"type":"step-done","body":{"cut off)"), "step-done");
  for (const char* text : {"", "{", R"({"body":{},"type":"start"})", "\xff"})
    EXPECT_EQ(name_of(text), "") << text;
  // A text that names a message inside another one.
  EXPECT_EQ(name_of(encode(FromTrainer(TrainerFailed{"t", 70, R"({"type":"quit")", ""}))), "trainer-failed");
}

// Found by fuzzing: the conversion to 64 bits was undefined.
TEST(Wire, ARealNumberWhereAnIntegerBelongs_IsAnError) {
  const auto start = [](const std::string& recorded) {
    std::string text = encode(ToTrainer(Start()));
    const std::string key = "\"recorded\":0";
    return text.replace(text.find(key), key.size(), str("\"recorded\":", recorded));
  };
  const auto good = decode<ToTrainer>(start("3"));
  ASSERT_TRUE(good) << good.error().line();
  for (const char* recorded : {"3.5", "1e30", "333333333333333333333333333333"}) {
    const auto bad = decode<ToTrainer>(start(recorded));
    ASSERT_FALSE(bad) << recorded;
    EXPECT_NE(bad.error().line().find("field 'recorded' is not a whole number"), std::string::npos)
        << bad.error().line();
  }
  // A loss may be any number.
  StepDone done;
  done.metrics = {{"accuracy", 0.5}, {"step", 1.5}};  // a task may use any name
  done.loss = 1e30;
  const auto received = std::get<StepDone>(decode<FromTrainer>(encode(FromTrainer(done))).value());
  EXPECT_EQ(received.loss, 1e30);
  EXPECT_EQ(received.metrics, done.metrics);
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
