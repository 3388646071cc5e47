// The orders to workers: as few and as small as possible, and always in order.
#include <gtest/gtest.h>

#include "actors/outbox.hpp"

namespace rekindle::actors {
namespace {

using namespace protocol;

struct Delivery {
  std::string worker;
  std::vector<Recipient> to;
  std::string message;
};

std::vector<Delivery> flush(Outbox& outbox) {
  std::vector<Delivery> all;
  outbox.flush(
      [](ToTrainer& message) {
        if (auto* start = std::get_if<Start>(&message)) start->secret = "secret";
      },
      [&](const std::string& worker, std::vector<Recipient> to, const std::string& message) {
        all.push_back({worker, std::move(to), message});
      });
  return all;
}

TEST(Outbox, Generation_OneOrderAWorkerWithTheRankOfEachOfItsTrainers) {
  Outbox outbox;
  Start start;
  start.generation = {1, 2};
  start.members = std::vector<Member>(16);
  for (const char* trainer : {"a.0", "a.1", "b.0", "b.1"}) {
    outbox.put({std::string(1, trainer[0]), trainer, start});
    ++start.rank;
  }
  const auto sent = flush(outbox);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].worker, "b");
  ASSERT_EQ(sent[1].to.size(), 2U);
  EXPECT_EQ(sent[1].to[1].trainer, "b.1");
  EXPECT_EQ(sent[1].to[1].rank, 3);
  const auto message = decode<ToTrainer>(sent[1].message);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Start>(*message).secret, "secret");
  EXPECT_EQ(std::get<Start>(*message).members.size(), 16U);
  EXPECT_TRUE(flush(outbox).empty());
}

TEST(Outbox, EachTrainerGetsItsMessagesInTheOrderOfTheDecisions) {
  Outbox outbox;
  const ToTrainer stop = Stop{{1, 1}}, abort = Abort{{1, 1}}, older = Abort{{1, 0}};
  for (const ToTrainer& message : {stop, abort, older, abort}) outbox.put({"a", "a.0", message});
  outbox.put({"a", "a.1", abort});
  const auto sent = flush(outbox);
  ASSERT_EQ(sent.size(), 4U);
  const ToTrainer wanted[] = {stop, abort, older, abort};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sent[i].message, encode(wanted[i]));
  EXPECT_EQ(sent[2].to.size(), 1U);
  EXPECT_EQ(sent[3].to.size(), 2U);
}

}  // namespace
}  // namespace rekindle::actors
