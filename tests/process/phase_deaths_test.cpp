// Kills during short operations: a state copy, a checkpoint.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"
#include "run/layout.hpp"
#include "run/status_file.hpp"

namespace rekindle::process_test {
namespace {

class PhaseDeaths : public LiveRun {};

TEST_F(PhaseDeaths, TrainerKilledDuringACheckpoint_TheRunGoesOnAndTheOneBeforeStays) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {"--checkpoint-every", "8"}));
  bool hit = false;
  for (int tries = 0; tries < 10 && !hit; ++tries) {
    const auto trainers = parts_of(dir(), "trainer");
    std::optional<fs::path> caught;
    ASSERT_TRUE(eventually([&] {
      // A checkpoint is written within a few ms, so the search has no pause.
      for (int i = 0; i < 1000 && !caught; ++i) caught = unfinished_checkpoint();
      return caught.has_value();
    }));
    ::kill(trainers.back(), SIGKILL);
    hit = !fs::exists(*caught / "manifest.json");
    // A new trainer has replaced the killed one.
    ASSERT_NO_FATAL_FAILURE(wait_for_log("of them new", tries + 1));
  }
  EXPECT_TRUE(hit);
  const int committed = times_logged("is committed");
  ASSERT_NO_FATAL_FAILURE(wait_for_log("is committed", committed + 2));
  stop_and_compare();
  EXPECT_EQ(run({"inspect", dir()}).exit_code, 0);
}

class KeptMicroBatches : public LiveRun, public ::testing::WithParamInterface<const char*> {
 protected:
  // The steps of all trainers but one; empty while one of these computes.
  static std::vector<std::uint64_t> steps_of_others(const nlohmann::json& status, pid_t trainer) {
    std::vector<std::uint64_t> steps;
    for (const nlohmann::json& each : status.value("trainers", nlohmann::json::array())) {
      if (each.value("pid", pid_t{0}) == trainer) continue;
      if (each.value("phase", "") == "computing") return {};
      steps.push_back(each.value("step", std::uint64_t{0}));
    }
    return steps;
  }
  // Waits until two statuses in a row show the other trainers at the same steps. Trainers report their steps
  // twice a second, and a status is written once a second. A suspended trainer that is lost before that is
  // killed, and the others do not wait any more.
  void wait_until_the_others_wait_for(pid_t trainer) const {
    nlohmann::json last = nlohmann::json::object();
    ASSERT_TRUE(eventually([&] {
      if (command_line(trainer).empty()) return true;
      const auto status = run::read_status(run::Layout(dir()));
      if (!status || status->value("updated", "") == last.value("updated", "")) return false;
      const nlohmann::json before = std::exchange(last, *status);
      const auto steps = steps_of_others(last, trainer);
      return !steps.empty() && steps == steps_of_others(before, trainer);
    })) << log();
  }
};
INSTANTIATE_TEST_SUITE_P(Deaths, KeptMicroBatches, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

// One trainer is suspended until the others have finished their micro-batches and wait for it. When it is
// killed, the others take over its micro-batches and do not compute their own again.
TEST_P(KeptMicroBatches, OfTheStepThatADeathBrokeOff) {
  ASSERT_NO_FATAL_FAILURE(begin(3, {"--exchange", GetParam()}));
  bool kept = false;
  for (int tries = 1; tries <= 40 && !kept; ++tries) {
    // A new trainer before its first micro-batch would make the others wait before theirs.
    ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
    const pid_t trainer = parts_of(dir(), "trainer").back();
    ::kill(trainer, SIGSTOP);
    ASSERT_NO_FATAL_FAILURE(wait_until_the_others_wait_for(trainer));
    ::kill(trainer, SIGKILL);
    ASSERT_NO_FATAL_FAILURE(wait_for_log("of them new", tries));  // a new trainer has replaced the killed one
    kept = trainer_logs().find("are already computed") != std::string::npos;
  }
  EXPECT_TRUE(kept);
  stop_and_compare();
}

struct Copy {
  const char* exchange;
  bool source_dies;  // otherwise the receiver dies
};

// VGG11: the copy of a gigabyte takes long enough to be interrupted.
class StateCopy : public LiveRun, public ::testing::WithParamInterface<Copy> {
 protected:
  Arguments job(const fs::path& run_dir, int workers, int steps) const {
    return vgg_run(run_dir, workers, steps) +
           Arguments{"--image-size", "32", "--exchange", GetParam().exchange};
  }
  // The log lines of one trainer.
  std::string lines_of(const std::string& trainer) const {
    std::istringstream all(trainer_logs());
    std::string lines;
    for (std::string line; std::getline(all, line);) {
      if (line.find(str("trainer ", trainer, ": ")) != std::string::npos) lines += line + "\n";
    }
    return lines;
  }
};

TEST_P(StateCopy, SourceOrReceiverKilled_TheOthersGoOn) {
  program_.emplace(Arguments{rekindle()} + job(dir(), 3, 1000));
  ASSERT_NO_FATAL_FAILURE(wait_for_step(2));
  const auto first = parts_of(dir(), "trainer");
  ASSERT_EQ(first.size(), 3U);
  ::kill(first.at(2), SIGKILL);
  pid_t newcomer = 0;
  std::string name;
  ASSERT_TRUE(eventually([&] {
    for (const pid_t pid : parts_of(dir(), "trainer")) {
      if (std::find(first.begin(), first.end(), pid) == first.end()) newcomer = pid;
    }
    name = name_of(newcomer);
    return !name.empty();
  }));
  ASSERT_TRUE(eventually([&] { return lines_of(name).find("of 3, from step") != std::string::npos; }));
  ::kill(newcomer, SIGSTOP);
  ASSERT_EQ(lines_of(name).find("micro-batches of step"), std::string::npos) << "the copy was over already";
  ::kill(GetParam().source_dies ? first.at(0) : newcomer, SIGKILL);
  ::kill(newcomer, SIGCONT);
  const std::uint64_t reached = reached_step(dir());
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers", 2));
  ASSERT_NO_FATAL_FAILURE(wait_for_step(reached + 3));
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  const int steps = static_cast<int>(reached_step(dir())) + 1;
  EXPECT_EQ(run(job(dir(), 2, steps)).exit_code, 0);
  EXPECT_EQ(run(job(scratch_ / "quiet", 2, steps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
}
INSTANTIATE_TEST_SUITE_P(Deaths, StateCopy,
                         ::testing::Values(Copy{"shm", true}, Copy{"shm", false}, Copy{"tcp", true},
                                           Copy{"tcp", false}),
                         [](const auto& info) {
                           return str(info.param.source_dies ? "Source_" : "Receiver_", info.param.exchange);
                         });

}  // namespace
}  // namespace rekindle::process_test
