#include "view/run_events.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "../run/run_directory_fixture.hpp"
#include "run/records.hpp"

namespace rekindle::view {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Events : public run::RunDirectory {
 protected:
  void event(const std::string& kind, nlohmann::json more) {
    more.update({{"attempt", 1}});
    ASSERT_TRUE(run::record_event(layout_, kind, more));
  }
  void text(const std::string& line) { std::ofstream(layout_.events().path(), std::ios::app) << line; }
  std::vector<std::string> texts(RunEvents& events) {
    const std::vector<RunEvent> fresh = events.read_new().value();
    std::vector<std::string> made;
    made.reserve(fresh.size());
    for (const RunEvent& event : fresh) made.push_back(event.kind + ": " + event.text);
    return made;
  }
};

TEST_F(Events, OfEachKind_ALineForPeople) {
  event("started", {{"host", "node1"}, {"step", 0}});
  event("generation", {{"generation", "t1.g1"}, {"trainers", 4}, {"step", 0}});
  event("lost", {{"trainer", "w0-1.0-1"}, {"host", "node2"}, {"why", "killed by signal 9"}, {"step", 2}});
  event("recovered", {{"cause", "lost"}, {"trainers", 3}, {"before", 4}, {"seconds", 0.25}, {"step", 3}});
  event("recovered", {{"cause", "coordinator"}, {"step", 0}});
  event("evaluated", {{"test_loss", 0.25}, {"test_accuracy", 0.5}, {"test_count", 10}, {"step", 3}});
  event("saved", {{"checkpoint", "step-3"}, {"bytes", 2000000}, {"step", 3}});
  event("restored", {{"checkpoint", "step-3"}, {"step", 3}});
  event("rewound", {{"step", 3}, {"newest", 7}});
  event("stopped", {{"why", "saved at step 3"}, {"exit_code", 75}, {"step", 3}});
  event("requeued", {{"cause", "time limit"}, {"step", 3}});
  event("gave_up", {{"why", "crash loop"}, {"exit_code", 70}, {"step", 3}});
  event("finished", {{"why", "all 9 steps are done"}, {"exit_code", 0}, {"step", 9}});
  RunEvents events(layout_, RunEvents::From::kBeginning);
  EXPECT_THAT(
      texts(events),
      ElementsAre("started: attempt 1 began on node1",
                  "generation: generation t1.g1 with 4 trainers begins at step 0",
                  "lost: trainer w0-1.0-1 on node2 was lost at step 2: killed by signal 9",
                  "recovered: goes on with 3 trainers (4 before) from step 2, after 0.25 s",
                  "recovered: another coordinator goes on in place of one that died",
                  "evaluated: test loss 0.25, accuracy 0.5 after step 3", "saved: saved step-3 (2.0 MB)",
                  "restored: checkpoint step-3 was read completely, and is correct",
                  "rewound: goes back to step 3: the 4 steps after it are made again",
                  "stopped: saved at step 3",
                  "requeued: the job ends at step 3 (time limit) and is queued again",
                  "gave_up: gave up: crash loop", "finished: all 9 steps are done"));
  EXPECT_THAT(texts(events), IsEmpty());
}

TEST_F(Events, FromNow_NothingOfBeforeIsTold) {
  event("started", {{"host", "node1"}});
  RunEvents events(layout_, RunEvents::From::kNow);
  EXPECT_THAT(texts(events), IsEmpty());
  event("started", {{"host", "node2"}});
  EXPECT_THAT(texts(events), ElementsAre("started: attempt 1 began on node2"));
}

TEST_F(Events, OfLinesThatNobodyWrote_AreLeftOut) {
  text("[1]\n{\"event\":1}\nrubbish\n{\"event\":\"unknown\",\"at\":\"\"}\n{\"no\":\"event\"}\n");
  text("{\"event\":\"started\",\"host\":\"\\u001b[31mred\",\"attempt\":1}\n{\"event\":\"started\",\"ho");
  RunEvents events(layout_, RunEvents::From::kBeginning);
  EXPECT_THAT(texts(events), ElementsAre("started: attempt 1 began on \\x1b[31mred"));
  text("st\":\"node2\",\"attempt\":2}\n");
  EXPECT_THAT(texts(events), ElementsAre("started: attempt 2 began on node2"));
}

TEST_F(Events, AsJson_HaveTheLineAndTheText) {
  event("saved", {{"checkpoint", "step-3"}, {"bytes", 20}, {"step", 3}});
  RunEvents events(layout_, RunEvents::From::kBeginning);
  const std::vector<RunEvent> all = events.read_new().value();
  ASSERT_EQ(all.size(), 1U);
  const nlohmann::json json = all[0].json(layout_);
  EXPECT_EQ(json["event"], "saved");
  EXPECT_EQ(json["run"], layout_.root().string());
  EXPECT_EQ(json["text"], "saved step-3 (20 bytes)");
  EXPECT_EQ(json["checkpoint"], "step-3");
}

}  // namespace
}  // namespace rekindle::view
