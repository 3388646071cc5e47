// The transcripts in docs/protocol.md are the real output of the state machines.
// REKINDLE_REWRITE_TRANSCRIPTS=1 writes them again, so that a person can review the difference.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "play.hpp"

namespace rekindle::protocol::play {
namespace {

class Document {
 public:
  Document() {
    std::ostringstream all;
    all << std::ifstream(REKINDLE_PROTOCOL_DOCUMENT).rdbuf();
    text_ = all.str();
  }
  // The text between the fences after <!-- transcript: NAME -->.
  std::string block(const std::string& name) const {
    const auto [from, to] = range(name);
    return text_.substr(from, to - from);
  }
  void replace(const std::string& name, const std::string& block) {
    const auto [from, to] = range(name);
    if (to == 0) return;
    text_.replace(from, to - from, block);
    std::ofstream(REKINDLE_PROTOCOL_DOCUMENT) << text_;
  }

 private:
  std::pair<std::size_t, std::size_t> range(const std::string& name) const {
    const std::string open = str("<!-- transcript: ", name, " -->\n\n```text\n");
    const auto at = text_.find(open);
    if (at == std::string::npos) return {0, 0};
    return {at + open.size(), text_.find("```\n", at + open.size())};
  }
  std::string text_;
};

class Transcript : public ::testing::Test {
 protected:
  Transcript() : play_(small_run(8000)) {}

  // Starts two workers with one trainer each, and their generation.
  void run_two() {
    play_.coordinator_starts();
    play_.worker_starts("w1");
    play_.worker_starts("w2");
    play_.wait(Time(4000));
    play_.trainer_warms_up("w1.0-1");
    play_.trainer_warms_up("w2.0-1");
  }
  // The same, without a transcript of it.
  void after_ten_steps() {
    run_two();
    quiet_ = play_.transcript().size();
    for (std::uint64_t step = 1; step <= 10; ++step) play_.completes_step("w1.0-1", step);
    quiet_ = play_.transcript().size();
  }
  // The other trainers have paused for it, too.
  void third_joins() {
    play_.worker_starts("w3");
    play_.trainer_warms_up("w3.0-1");
    play_.wait(Time(600));
    play_.pauses("w1.0-1", 12, PauseReason::kAgreed);
    play_.pauses("w2.0-1", 12, PauseReason::kAgreed);
  }

  void is(const std::string& name) {
    const std::string seen = play_.transcript().substr(quiet_);
    Document document;
    if (std::getenv("REKINDLE_REWRITE_TRANSCRIPTS") != nullptr) {
      document.replace(name, seen);
      document = Document();
    }
    EXPECT_EQ(document.block(name), seen) << "docs/protocol.md, transcript " << name;
  }

  Play play_;
  std::size_t quiet_ = 0;
};

TEST_F(Transcript, FirstGeneration) {
  run_two();
  is("the first generation");
}

TEST_F(Transcript, TrainerDies) {
  after_ten_steps();
  play_.trainer_dies("w2.0-1", SIGKILL);
  play_.pauses("w1.0-1", 10, PauseReason::kAborted);
  play_.wait(Time(200));
  play_.trainer_warms_up("w2.0-2");
  play_.completes_step("w1.0-1", 11);
  play_.wait(Time(600));
  play_.pauses("w1.0-1", 12, PauseReason::kAgreed);
  is("a trainer dies and its successor joins");
}

TEST_F(Transcript, SurvivorsAreAStepApart) {
  after_ten_steps();
  third_joins();
  play_.worker_dies("w3");
  play_.pauses("w1.0-1", 13, PauseReason::kAborted);
  play_.pauses("w2.0-1", 12, PauseReason::kExchangeFailed, 2);
  is("a worker joins and dies in the middle of an update");
}

TEST_F(Transcript, Checkpoint) {
  after_ten_steps();
  play_.writes("w1.0-1", 10);
  play_.trainer_dies("w1.0-1", SIGKILL);
  play_.writes("w2.0-1", 10);
  play_.pauses("w2.0-1", 10, PauseReason::kAborted);
  play_.committed(10);
  is("a checkpoint outlives its generation");
}

TEST_F(Transcript, CheckpointAbandoned) {
  after_ten_steps();
  play_.writes("w1.0-1", 10);
  play_.trainer_dies("w2.0-1", SIGKILL);
  play_.pauses("w1.0-1", 10, PauseReason::kAborted);
  is("a writer is lost before it has reported");
}

TEST_F(Transcript, Stop) {
  after_ten_steps();
  play_.asked_to_stop(75);
  play_.trainer_dies("w2.0-1", SIGKILL);
  play_.pauses("w1.0-1", 11, PauseReason::kAborted);
  play_.writes("w1.0-1", 11);
  play_.pauses("w1.0-1", 11, PauseReason::kAgreed);
  play_.committed(11);
  play_.trainer_crashes("w1.0-1", 0);
  is("a stop, and a trainer dies before the Stop arrives");
}

TEST_F(Transcript, CoordinatorDies) {
  after_ten_steps();
  play_.coordinator_dies();
  play_.writes("w1.0-1", 11);
  play_.wait(Time(300));
  play_.coordinator_starts();
  play_.writes("w2.0-1", 11);
  play_.committed(11);
  is("the coordinator dies and nobody stops");
}

TEST_F(Transcript, NoTrainerHasAState) {
  after_ten_steps();
  play_.writes("w1.0-1", 10);
  play_.writes("w2.0-1", 10);
  play_.committed(10);
  play_.worker_dies("w1");
  play_.worker_dies("w2");
  play_.worker_starts("w3");
  play_.trainer_warms_up("w3.0-1");
  play_.worker_starts("w4");
  play_.trainer_warms_up("w4.0-1");
  play_.wait(Time(30000));
  is("everybody dies");
}

TEST_F(Transcript, StatesDiffer) {
  after_ten_steps();
  third_joins();
  for (const char* trainer : {"w1.0-1", "w2.0-1", "w3.0-1"})
    play_.pauses(trainer, 20, PauseReason::kStatesDiffer, -1, {1});
  is("a replica's memory is wrong");
}

TEST_F(Transcript, CrashLoop) {
  after_ten_steps();
  play_.writes("w1.0-1", 10);
  play_.writes("w2.0-1", 10);
  play_.committed(10);
  play_.trainer_crashes("w2.0-1", 70);
  play_.pauses("w1.0-1", 10, PauseReason::kAborted);
  play_.trainer_crashes("w1.0-1", 70);
  play_.wait(Time(3000));
  play_.trainer_warms_up("w1.0-2");
  play_.trainer_warms_up("w2.0-2");
  play_.trainer_crashes("w1.0-2", 70);
  play_.pauses("w2.0-2", 10, PauseReason::kAborted);
  play_.trainer_crashes("w2.0-2", 70);
  is("the same step crashes again and again");
}

}  // namespace
}  // namespace rekindle::protocol::play
