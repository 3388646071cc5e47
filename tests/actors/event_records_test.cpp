// Which events a coordinator's decisions become: each recovery is told once, when it is one.
#include <fstream>
#include <nlohmann/json.hpp>

#include "../protocol/coordinator_fixture.hpp"
#include "../temporary_directory.hpp"
#include "actors/event_records.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {
namespace {

using namespace protocol;

class EventRecordsTest : public CoordinatorTest {
 protected:
  EventRecordsTest() {
    config_.term = 1;
    std::filesystem::create_directories(layout_.terms().path());
    EXPECT_EQ(run::claim_term(layout_, {.patience = {}, .answers = [](const run::Holder&) { return false; }})
                  .value_or(0),
              1U);
  }
  // As CoordinatorHost: what was decided, then a look at the coordinator.
  void decide(const Event& event) {
    for (const Effect& effect : machine_->on(now_, event)) {
      if (const auto* step = std::get_if<RecordStep>(&effect)) events_.record(step->done);
      if (const auto* loss = std::get_if<RecordLoss>(&effect)) events_.record(*loss, machine_->step());
    }
    events_.observe(*machine_);
  }
  void hear(const FromTrainer& message) { decide(TrainerReported{"w-h", message}); }
  void form(const std::vector<std::string>& trainers) {
    config_.expected_trainers = static_cast<int>(trainers.size());
    begin();
    decide(WorkerRegistered{{"w-h", "h", "build", 3, {}}});
    for (const std::string& name : trainers) hear(TrainerReady{name, "h", "cpu", "{}", {}, 1});
    ASSERT_EQ(machine_->phase(), protocol::Phase::kRunning);
  }
  void step(std::uint64_t number, int trainers) {
    hear(StepDone{.generation = machine_->generation(), .step = number, .trainers = trainers});
  }
  void pause(const std::string& trainer, std::uint64_t at) {
    hear(paused(trainer, at, PauseReason::kAborted));
  }
  // "recovered t1.g2 lost" and the others' kinds.
  std::vector<std::string> told() {
    writer_.flush();
    std::ifstream in(layout_.events().path());
    std::vector<std::string> found;
    for (std::string text; std::getline(in, text);) {
      const auto line = nlohmann::json::parse(text);
      const std::string kind = line["event"];
      found.push_back(kind != "recovered" ? kind
                                          : str(kind, " ", line["generation"].get<std::string>(), " ",
                                                line["cause"].get<std::string>(), " ", line["before"], "->",
                                                line["trainers"]));
    }
    return found;
  }

  TemporaryDirectory folder_;
  run::Layout layout_{folder_.path()};
  RecordWriter writer_{layout_, 1};
  EventRecords events_{writer_, 1};
};
using Told = std::vector<std::string>;

// Rank 0 has still reported the step that the lost trainer took part in.
TEST_F(EventRecordsTest, AStepOfTheGenerationThatIsOver_IsNoRecovery) {
  form({"a", "b", "c"});
  step(1, 3);
  hear(TrainerExited{"b", true, 9});
  step(2, 3);
  pause("a", 2);
  pause("c", 2);
  ASSERT_EQ(machine_->phase(), protocol::Phase::kRunning);
  EXPECT_EQ(told(), (Told{"generation", "lost", "generation"}));
  step(3, 2);
  step(4, 2);
  EXPECT_EQ(told(), (Told{"generation", "lost", "generation", "recovered t1.g2 lost 3->2"}));
}

TEST_F(EventRecordsTest, ALossBeforeTheNextGenerationsFirstStep_IsOneRecovery) {
  form({"a", "b", "c"});
  step(1, 3);
  hear(TrainerExited{"b", true, 9});
  pause("a", 1);
  pause("c", 1);
  hear(TrainerExited{"c", true, 9});
  pause("a", 1);
  ASSERT_EQ(machine_->phase(), protocol::Phase::kRunning);
  step(2, 1);
  EXPECT_EQ(told(),
            (Told{"generation", "lost", "generation", "lost", "generation", "recovered t1.g3 lost 3->1"}));
}

// The connection to the worker broke, and came back: nobody was lost.
TEST_F(EventRecordsTest, AGenerationThatIsFoundAgain_IsOneRecoveryOfItself) {
  form({"a", "b"});
  step(1, 2);
  const GenerationId same = machine_->generation();
  decide(WorkerLost{"w-h", "no heartbeat for 10 s"});
  ASSERT_NE(machine_->phase(), protocol::Phase::kRunning);
  Start start;
  start.generation = same;
  start.members = std::vector<Member>{{"a", {}}, {"b", {}}};
  std::vector<TrainerState> states(2);
  for (const int rank : {0, 1}) {
    TrainerState& state = states[static_cast<std::size_t>(rank)];
    state.ready = TrainerReady{rank == 0 ? "a" : "b", "h", "cpu", "{}", {}, 1};
    state.started = start;
    state.started->rank = rank;
  }
  decide(WorkerRegistered{{"w-h", "h", "build", 3, states}});
  ASSERT_EQ(machine_->phase(), protocol::Phase::kRunning);
  EXPECT_EQ(machine_->generation(), same);
  step(2, 2);
  step(3, 2);
  EXPECT_EQ(told(), (Told{"generation", "lost", "lost", "recovered t1.g1 lost 2->2"}));
}

}  // namespace
}  // namespace rekindle::actors
