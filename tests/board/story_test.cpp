#include "board/story.hpp"

#include <gtest/gtest.h>

namespace rekindle::board {
namespace {

class StoryTest : public testing::Test {
 protected:
  void add(const std::string& kind, int second, nlohmann::json more = nlohmann::json::object()) {
    char at[40];
    std::snprintf(at, sizeof at, "2026-01-01T00:00:%02d.000Z", second);
    more["at"] = at;
    more["event"] = kind;
    story_.add({.kind = kind,
                .at = at,
                .attempt = attempt_,
                .step = more.value("step", std::uint64_t{0}),
                .text = kind + "!",
                .more = more});
  }
  static nlohmann::json trainer(const std::string& name) {
    return {{"trainer", name}, {"worker", "w"}, {"host", "n1"}, {"device", "cpu"}};
  }
  nlohmann::json summary(const std::vector<std::string>& there = {}) {
    nlohmann::json made = nlohmann::json::object();
    story_.put_into(made, there);
    return made;
  }
  // "training 1-5, waiting 5-7, training 7-"
  std::string life(std::size_t lane) {
    std::string text;
    const nlohmann::json made = summary();
    for (const auto& span : made["lanes"][lane]["spans"]) {
      const auto second = [&](const char* key) {
        return span[key].is_null() ? ""
                                   : std::to_string(std::stoi(span[key].get<std::string>().substr(17, 2)));
      };
      text += (text.empty() ? "" : ", ") + span["state"].get<std::string>() + " " + second("from") + "-" +
              second("to");
    }
    return text;
  }

  std::uint64_t attempt_ = 1;
  Story story_;
};

TEST_F(StoryTest, ATrainerIsLostAndAnotherOneJoins) {
  add("started", 0, {{"host", "n1"}, {"job", "4711"}});
  add("generation", 1, {{"generation", "t1.g1"}, {"trainers", 2}, {"members", {trainer("a"), trainer("b")}}});
  add("lost", 5, {{"trainer", "b"}, {"why", "killed by signal 9"}, {"step", 40}});
  add("generation", 5,
      {{"generation", "t1.g2"}, {"trainers", 1}, {"joined", nlohmann::json::array()}, {"left", {"b"}}});
  add("recovered", 7, {{"cause", "lost"}, {"seconds", 2.0}});
  add("generation", 9,
      {{"generation", "t1.g3"},
       {"trainers", 2},
       {"joined", {trainer("c")}},
       {"left", nlohmann::json::array()}});
  add("recovered", 10, {{"cause", "joined"}, {"seconds", 1.0}});
  EXPECT_EQ(life(0), "training 1-5, waiting 5-7, training 7-9, waiting 9-10, training 10-");
  EXPECT_EQ(life(1), "training 1-5");
  EXPECT_EQ(life(2), "waiting 9-10, training 10-");
  const nlohmann::json made = summary();
  EXPECT_EQ(made["lanes"][1]["end"], "killed by signal 9");
  EXPECT_TRUE(made["lanes"][0]["end"].is_null());
  EXPECT_EQ(made["generations"][0]["ended"], "trainer b was lost: killed by signal 9");
  EXPECT_EQ(made["generations"][1]["ended"], "1 trainer joined");
  EXPECT_TRUE(made["generations"][2]["ended"].is_null());
  EXPECT_EQ(made["attempts"][0]["job"], "4711");
  EXPECT_EQ(story_.counts().recoveries.at("lost"), 1U);
  EXPECT_EQ(story_.counts().recoveries.at("joined"), 1U);
  EXPECT_DOUBLE_EQ(story_.counts().recovery_seconds.sum(), 3.0);
}

// A coordinator that has seen no step tells of no recovery.
TEST_F(StoryTest, ALossBeforeTheFirstStep_TheOthersTrainFromTheNextGenerationOn) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a"), trainer("b")}}});
  add("lost", 3, {{"trainer", "b"}, {"why", "killed by signal 9"}});
  add("generation", 4, {{"generation", "t1.g2"}, {"joined", nlohmann::json::array()}, {"left", {"b"}}});
  EXPECT_EQ(life(0), "training 1-3, waiting 3-4, training 4-");
  EXPECT_EQ(life(1), "training 1-3");
}

TEST_F(StoryTest, TwoLossesBeforeAStep_AreOneTimeOfWaiting) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a"), trainer("b"), trainer("c")}}});
  add("lost", 3, {{"trainer", "b"}, {"why", "killed by signal 9"}});
  add("generation", 4, {{"generation", "t1.g2"}, {"joined", nlohmann::json::array()}, {"left", {"b"}}});
  add("lost", 5, {{"trainer", "c"}, {"why", "killed by signal 9"}});
  add("generation", 6, {{"generation", "t1.g3"}, {"joined", nlohmann::json::array()}, {"left", {"c"}}});
  add("recovered", 7, {{"generation", "t1.g3"}, {"cause", "lost"}, {"seconds", 4.0}});
  EXPECT_EQ(life(0), "training 1-3, waiting 3-7, training 7-");
}

// All connections broke, and the generation goes on.
TEST_F(StoryTest, LossesThatWereNone_AreTakenBack) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a"), trainer("b")}}});
  add("lost", 5, {{"trainer", "a"}, {"why", "no heartbeat for 10 s"}});
  add("lost", 5, {{"trainer", "b"}, {"why", "no heartbeat for 10 s"}});
  add("recovered", 9, {{"generation", "t1.g1"}, {"cause", "lost"}, {"seconds", 4.0}});
  EXPECT_EQ(life(0), "training 1-5, waiting 5-9, training 9-");
  EXPECT_EQ(life(1), "training 1-5, waiting 5-9, training 9-");
  EXPECT_TRUE(summary()["lanes"][0]["end"].is_null());
  EXPECT_TRUE(summary()["generations"][0]["ended"].is_null());
}

TEST_F(StoryTest, TheLossOfASpare_LetsNobodyWait) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a")}}});
  add("lost", 3, {{"trainer", "spare"}, {"why", "killed by signal 9"}});
  EXPECT_EQ(life(0), "training 1-");
  EXPECT_TRUE(summary()["generations"][0]["ended"].is_null());
}

TEST_F(StoryTest, WhoDiedWithTheCoordinator_IsNoLongerThere) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a"), trainer("b")}}});
  add("recovered", 5, {{"cause", "coordinator"}});
  add("generation", 6, {{"generation", "t2.g1"}, {"members", {trainer("b"), trainer("c")}}});
  EXPECT_EQ(life(0), "training 1-6");
  EXPECT_EQ(life(1), "training 1-");
  EXPECT_EQ(life(2), "training 6-");
}

TEST_F(StoryTest, ASlowTrainer_HasItsTime) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a"), trainer("b")}}});
  add("slow", 5, {{"trainer", "a"}});
  add("not_slow", 9, {{"trainer", "a"}});
  add("slow", 9, {{"trainer", "unknown"}});
  EXPECT_EQ(life(0), "training 1-5, slow 5-9, training 9-");
  EXPECT_EQ(life(1), "training 1-");
}

TEST_F(StoryTest, AnAttemptEndsAndTheNextOneBegins) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a")}}});
  add("saved", 3, {{"checkpoint", "step-4"}, {"bytes", 100}, {"step", 4}});
  add("stopped", 4, {{"why", "time limit"}});
  add("requeued", 5, {{"cause", "time limit"}});
  attempt_ = 2;
  add("started", 14);
  add("generation", 15, {{"generation", "t2.g1"}, {"members", {trainer("b")}}});
  add("restored", 16, {{"checkpoint", "step-4"}});
  EXPECT_EQ(life(0), "training 1-4");
  EXPECT_EQ(life(1), "training 15-");
  const nlohmann::json made = summary({"step-4"});
  EXPECT_EQ(made["attempts"][0]["ended"], "2026-01-01T00:00:04.000Z");
  EXPECT_EQ(made["attempts"][1]["pending_seconds"], 10.0);
  EXPECT_EQ(made["generations"][0]["ended"], "stopped!");
  EXPECT_EQ(made["checkpoints"][0]["verified"], true);
  EXPECT_EQ(made["checkpoints"][0]["there"], true);
  EXPECT_EQ(summary()["checkpoints"][0]["there"], false);
  EXPECT_EQ(story_.counts().requeues, 1U);
  EXPECT_EQ(story_.counts().bytes_saved, 100U);
}

TEST_F(StoryTest, WhatAnAttemptCost) {
  add("started", 0);
  EXPECT_TRUE(summary()["attempts"][0]["first_step"].is_null());
  EXPECT_TRUE(summary()["attempts"][0]["starting_seconds"].is_null());
  add("generation", 3, {{"generation", "t1.g1"}, {"members", {trainer("a"), trainer("b")}}});
  add("saved", 10, {{"checkpoint", "step-40"}, {"step", 40}});
  add("recovered", 22, {{"cause", "lost"}, {"seconds", 1.5}, {"step", 61}});
  add("rewound", 25, {{"step", 50}, {"newest", 57}});
  add("generation", 25, {{"generation", "t1.g3"}, {"step", 50}});
  add("recovered", 30, {{"cause", "other"}, {"seconds", 0.25}, {"step", 51}});
  attempt_ = 2;  // the first one was killed; this one is preempted at once
  add("started", 35);
  add("stopped", 36);
  attempt_ = 3;
  add("started", 40);
  add("rewound", 42, {{"step", 40}, {"newest", 75}});
  add("generation", 42, {{"generation", "t2.g1"}, {"members", {trainer("c")}}, {"step", 40}});
  add("stopped", 51, {{"step", 95}});
  const nlohmann::json attempts = summary()["attempts"];
  EXPECT_EQ(attempts[0]["starting_seconds"], 3.0);
  EXPECT_EQ(attempts[0]["recovering_seconds"], 1.75);
  EXPECT_EQ(attempts[0]["first_step"], 0U);
  EXPECT_EQ(attempts[0]["last_step"], 75U);
  EXPECT_EQ(attempts[0]["lost_steps"], 7U + 35U);
  EXPECT_EQ(attempts[1]["lost_steps"], 0U);
  EXPECT_TRUE(attempts[1]["first_step"].is_null());
  EXPECT_EQ(attempts[2]["starting_seconds"], 2.0);
  EXPECT_EQ(attempts[2]["recovering_seconds"], 0.0);
  EXPECT_EQ(attempts[2]["first_step"], 40U);
  EXPECT_EQ(attempts[2]["last_step"], 95U);
  EXPECT_EQ(attempts[2]["lost_steps"], 0U);
}

TEST_F(StoryTest, AnAttemptThatWasKilled_EndsWithItsLastSign) {
  add("started", 0);
  add("generation", 1, {{"generation", "t1.g1"}, {"members", {trainer("a")}}});
  add("evaluated", 6);
  attempt_ = 2;
  add("started", 20);
  EXPECT_EQ(life(0), "training 1-6");
  EXPECT_EQ(summary()["attempts"][0]["ended"], "2026-01-01T00:00:06.000Z");
  EXPECT_EQ(summary()["attempts"][1]["pending_seconds"], 14.0);
}

TEST_F(StoryTest, LinesThatNoCoordinatorWrites_DoNoHarm) {
  add("generation", 1, {{"members", 7}, {"left", "x"}});
  add("generation", 1, {{"members", {1, nullptr, nlohmann::json::object()}}, {"left", {1, nullptr}}});
  add("lost", 2);
  add("recovered", 3, {{"seconds", -1e300}});
  add("recovered", 3, {{"seconds", 1e300}});
  add("recovered", 3, {{"seconds", "x"}});
  add("saved", 3, {{"bytes", -1}});
  add("rewound", 3, {{"newest", -1}});
  add("rewound", 3, {{"newest", "x"}, {"step", 1000}});
  add("finished", 4);
  EXPECT_EQ(summary()["events"].size(), 10U);
}

TEST_F(StoryTest, OfARunOfYears_TheNewestAreKept) {
  add("started", 0);
  for (std::size_t i = 0; i < 2 * Story::kMostGenerations; ++i)
    add("generation", 1,
        {{"generation", std::to_string(i)},
         {"joined", {trainer("t" + std::to_string(i))}},
         {"left", {"t" + std::to_string(i - 1)}}});
  const nlohmann::json made = summary();
  EXPECT_EQ(made["generations"].size(), Story::kMostGenerations);
  EXPECT_EQ(made["lanes"].size(), Story::kMostLanes);
  EXPECT_EQ(made["events"].size(), Story::kMostEvents);
  EXPECT_EQ(made["generations"].back()["generation"], std::to_string(2 * Story::kMostGenerations - 1));
}

// The clock of the second host is late.
TEST_F(StoryTest, AnAttemptThatSeemsToBeginBeforeTheEndOfTheLastOne_DidNotWait) {
  add("started", 10, {{"host", "n1"}});
  add("stopped", 30);
  attempt_ = 2;
  add("started", 20, {{"host", "n2"}});
  add("generation", 15, {{"generation", "t2.g1"}, {"trainers", 1}, {"members", {trainer("a")}}});
  EXPECT_EQ(summary()["attempts"][1]["pending_seconds"], 0.0);
  EXPECT_EQ(summary()["attempts"][1]["starting_seconds"], 0.0);
}

}  // namespace
}  // namespace rekindle::board
