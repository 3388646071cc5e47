#include "view/run_events.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "../run/run_directory_fixture.hpp"

namespace rekindle::view {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Events : public run::RunDirectory {
 protected:
  void attempt(const nlohmann::json& line) { append(layout_.attempts(), line); }
  void metrics(const nlohmann::json& line) { append(layout_.metrics(), line); }
  void step(std::uint64_t number, const std::string& generation, int trainers, const std::string& at) {
    metrics(
        {{"step", number}, {"generation", generation}, {"trainers", trainers}, {"attempt", 1}, {"at", at}});
  }
  std::vector<std::string> texts(RunEvents& events) {
    const std::vector<RunEvent> fresh = events.read_new().value();
    std::vector<std::string> made;
    made.reserve(fresh.size());
    for (const RunEvent& event : fresh) made.push_back(event.kind + ": " + event.text);
    return made;
  }

 private:
  static void append(const FilePath& file, const nlohmann::json& line) {
    std::ofstream(file.path(), std::ios::app) << line << "\n";
  }
};

TEST_F(Events, OfAWholeRun_InTheOrderOfTime) {
  attempt({{"event", "begin"}, {"attempt", 1}, {"host", "node1"}, {"at", "2026-01-01T00:00:01Z"}});
  step(1, "t1.g1", 4, "2026-01-01T00:00:02Z");
  step(2, "t1.g1", 4, "2026-01-01T00:00:03Z");
  step(3, "t1.g2", 3, "2026-01-01T00:00:04Z");
  metrics({{"step", 3},
           {"test_loss", 0.25},
           {"test_accuracy", 0.5},
           {"test_count", 10},
           {"attempt", 1},
           {"at", "2026-01-01T00:00:05Z"}});
  attempt({{"event", "coordinator-restart"}, {"attempt", 1}, {"at", "2026-01-01T00:00:06Z"}});
  attempt({{"event", "end"},
           {"attempt", 1},
           {"exit_code", 75},
           {"why", "saved at step 3"},
           {"step", 3},
           {"at", "2026-01-01T00:00:07Z"}});
  attempt({{"event", "slurm-end"},
           {"attempt", 1},
           {"cause", "time limit"},
           {"step", 3},
           {"requeued", true},
           {"at", "2026-01-01T00:00:08Z"}});
  attempt({{"event", "slurm-end"},
           {"attempt", 2},
           {"cause", "cancelled"},
           {"step", 3},
           {"at", "2026-01-01T00:00:09Z"}});
  attempt({{"event", "end"},
           {"attempt", 2},
           {"exit_code", 70},
           {"why", "crash loop"},
           {"step", 3},
           {"at", "2026-01-01T00:00:10Z"}});
  RunEvents events(layout_, RunEvents::From::kBeginning);
  EXPECT_THAT(texts(events), ElementsAre("started: attempt 1 began on node1",
                                         "recovered: goes on with 3 trainers (4 before) from step 2",
                                         "evaluated: test loss 0.25, accuracy 0.5 after step 3",
                                         "recovered: another coordinator goes on in place of one that died",
                                         "stopped: saved at step 3",
                                         "requeued: the job ends at step 3 (time limit) and is queued again",
                                         "gave_up: gave up: crash loop"));
  EXPECT_THAT(texts(events), IsEmpty());
}

TEST_F(Events, OfACoordinatorThatWasReplaced_TheEndIsNotTheRuns) {
  attempt({{"event", "begin"}, {"attempt", 1}, {"term", 1}, {"host", "a"}, {"at", "2026-01-01T00:00:01Z"}});
  attempt({{"event", "coordinator-restart"}, {"attempt", 1}, {"term", 2}, {"at", "2026-01-01T00:00:02Z"}});
  attempt({{"event", "end"}, {"attempt", 1}, {"term", 1}, {"exit_code", 70}, {"at", "2026-01-01T00:00:03Z"}});
  RunEvents events(layout_, RunEvents::From::kBeginning);
  EXPECT_THAT(texts(events), ElementsAre("started: attempt 1 began on a",
                                         "recovered: another coordinator goes on in place of one that died"));
}

TEST_F(Events, ALateLineOfAnEarlierGeneration_IsNoRecovery) {
  RunEvents events(layout_, RunEvents::From::kBeginning);
  step(12, "t1.g9", 4, "2026-01-01T00:00:01Z");
  step(14, "t1.g10", 3, "2026-01-01T00:00:02Z");
  step(13, "t1.g9", 4, "2026-01-01T00:00:03Z");
  step(15, "t1.g10", 3, "2026-01-01T00:00:04Z");
  EXPECT_THAT(texts(events), ElementsAre("recovered: goes on with 3 trainers (4 before) from step 13"));
}

TEST_F(Events, FromNow_NothingOfBeforeIsTold) {
  step(1, "t1.g1", 2, "2026-01-01T00:00:02Z");
  RunEvents events(layout_, RunEvents::From::kNow);
  EXPECT_THAT(texts(events), IsEmpty());
  step(2, "t1.g2", 3, "2026-01-01T00:00:03Z");
  EXPECT_THAT(texts(events), ElementsAre("recovered: goes on with 3 trainers (2 before) from step 1"));
}

TEST_F(Events, StepsThatAreMadeAgain_AreNotToldAgain) {
  RunEvents events(layout_, RunEvents::From::kBeginning);
  const nlohmann::json evaluation = {{"step", 1}, {"test_loss", 0.5}, {"at", "2026-01-01T00:00:02Z"}};
  metrics(evaluation);
  step(2, "t1.g1", 2, "2026-01-01T00:00:03Z");
  EXPECT_THAT(texts(events), ElementsAre("evaluated: test loss 0.5 after step 1"));
  // The next attempt begins at step 1.
  fs::remove(layout_.metrics().path());
  metrics(evaluation);
  EXPECT_THAT(texts(events), IsEmpty());
  metrics({{"step", 2}, {"test_loss", nullptr}, {"at", "2026-01-01T00:00:09Z"}});
  EXPECT_THAT(texts(events), ElementsAre("evaluated: test loss nan after step 2"));
}

TEST_F(Events, Json_HasEverythingOnce) {
  attempt({{"event", "end"},
           {"attempt", 3},
           {"exit_code", 0},
           {"why", "finished: 3 steps"},
           {"step", 3},
           {"at", "2026-01-01T00:00:07Z"}});
  RunEvents events(layout_, RunEvents::From::kBeginning);
  const auto all = events.read_new().value();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].json(layout_), (nlohmann::json{{"event", "finished"},
                                                  {"at", "2026-01-01T00:00:07Z"},
                                                  {"run", path_.string()},
                                                  {"attempt", 3},
                                                  {"step", 3},
                                                  {"text", "finished: 3 steps"},
                                                  {"why", "finished: 3 steps"}}));
}

TEST_F(Events, DamagedLines_CountForNothing) {
  std::ofstream(layout_.attempts().path()) << R"({"event":5,"attempt":1})"
                                           << "\n{\"event\":\"end\"\n[]\n";
  std::ofstream(layout_.metrics().path()) << R"({"step":-1,"test_loss":"x"})"
                                          << "\n";
  RunEvents events(layout_, RunEvents::From::kBeginning);
  EXPECT_THAT(texts(events), IsEmpty());
}

}  // namespace
}  // namespace rekindle::view
