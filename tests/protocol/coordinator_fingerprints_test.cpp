// Which trainers may train together: the hash of the numeric handshake at joins, in the first generation and
// at resumes.
#include "coordinator_fixture.hpp"
#include "protocol/fingerprint.hpp"

namespace rekindle::protocol {
namespace {

const std::string kOurs = R"({"build":"1","first_gradient":"aa"})";
const std::string kOtherBits = R"({"build":"1","first_gradient":"bb"})";
const std::string kOtherBuild = R"({"build":"2","first_gradient":"aa"})";
// Two names, the same bits; a GPU with other bits.
const std::string kSmallGpu = R"({"build":"1","first_gradient":"aa","gpu":"A100 40GB"})";
const std::string kLargeGpu = R"({"build":"1","first_gradient":"aa","gpu":"A100 80GB"})";
const std::string kOtherGpu = R"({"build":"1","first_gradient":"bb","gpu":"H100"})";

TEST(Fingerprint, HashOfTheFirstGradientIsDistinguishedFromTheReasons) {
  EXPECT_TRUE(same_but_first_gradient(kOurs, kOtherBits));
  EXPECT_TRUE(same_but_first_gradient("not JSON", "not JSON"));
  EXPECT_FALSE(same_but_first_gradient(kOurs, kOtherBuild));
  EXPECT_FALSE(same_but_first_gradient("not JSON", "other"));
  EXPECT_TRUE(other_first_gradient(kOurs, kOtherBits));
  EXPECT_FALSE(other_first_gradient(kOurs, kOtherBuild));
  EXPECT_FALSE(other_first_gradient(kOurs, R"({"build":"1"})"));
  EXPECT_FALSE(other_first_gradient("not JSON", kOurs));
  const std::string values = R"({"build":"1","first_gradient":"aa","initial_values":"cc"})",
                    other_values = R"({"build":"1","first_gradient":"aa","initial_values":"dd"})";
  EXPECT_TRUE(same_but_first_gradient(values, other_values));
  EXPECT_TRUE(other_first_gradient(values, other_values));
  EXPECT_FALSE(other_first_gradient(values, kOurs)) << "of an earlier build";
  EXPECT_EQ(without_initial_values(values), kOurs);
  EXPECT_EQ(without_initial_values("not JSON"), "not JSON");
}

TEST(Fingerprint, TheNameOfTheGpuCountsOnlyWithoutAHandshake) {
  EXPECT_EQ(bits_of(kSmallGpu), bits_of(kLargeGpu));
  EXPECT_NE(bits_of(kSmallGpu), bits_of(kOtherGpu));
  EXPECT_TRUE(same_but_first_gradient(kSmallGpu, kOtherGpu));
  const std::string one = R"({"gpu":"A"})", other = R"({"gpu":"B"})";
  EXPECT_NE(bits_of(one), bits_of(other));
  EXPECT_FALSE(same_but_first_gradient(one, other));
}

TEST(Fingerprint, DifferencesAreNamedInWords) {
  EXPECT_EQ(differences(kOurs, kOurs), "");
  EXPECT_EQ(differences(kOtherBuild, kOurs), "build 2 (not 1)");
  EXPECT_EQ(differences(R"({"build":"1","cpu_capability":"AVX2","first_gradient":"bb"})", kOurs),
            "cpu capability AVX2 (not none), result of the first micro-batch bb (not aa)");
  EXPECT_EQ(differences("not JSON", kOurs), str("fingerprint not JSON (not ", kOurs, ")"));
}

class Fingerprints : public CoordinatorTest {
 protected:
  // A trainer with its own worker and host.
  std::vector<Effect> come(const std::string& trainer, const std::string& fingerprint,
                           const std::string& machine = "CPU") {
    TrainerReady ready{trainer, "h-" + trainer, "cpu", fingerprint, {}, 1, machine, 12.4};
    return say(ready, enter("w-" + trainer, "h-" + trainer));
  }
  static std::string line_with(const std::vector<Effect>& effects, const std::string& words) {
    std::string found;
    for (const Warn& warn : of<Warn>(effects)) {
      if (warn.line.find(words) == std::string::npos) continue;
      EXPECT_EQ(found, "") << "more than one line";
      found = warn.line;
    }
    return found;
  }
  std::vector<std::string> dismissed() const {
    std::vector<std::string> workers;
    for (const Dismiss& each : of<Dismiss>(all_)) workers.push_back(each.worker);
    return workers;
  }
};

TEST_F(Fingerprints, JoinerWithOtherBits_RefusedWithOneLineThatNamesBothMachines) {
  config_.expected_trainers = 1;
  begin();
  come("a", kOurs, "AMD EPYC, MKL 1");
  const auto effects = come("x", kOtherBits, "Intel Xeon, MKL 2");
  const std::string line = line_with(effects, "computes other bits");
  EXPECT_NE(line.find("trainer x on h-x (Intel Xeon, MKL 2)"), std::string::npos) << line;
  EXPECT_NE(line.find("(AMD EPYC, MKL 1)"), std::string::npos) << line;
  EXPECT_EQ(dismissed(), std::vector<std::string>{"w-x"});
  EXPECT_FALSE(machine_->trainers().contains("x"));
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
}

// They do not show in the gradient, as the unused rows of an embedding.
TEST_F(Fingerprints, JoinerWithOtherInitialValues_RefusedInARunWithoutACheckpoint) {
  const std::string ours = R"({"build":"1","first_gradient":"aa","initial_values":"cc"})",
                    others = R"({"build":"1","first_gradient":"aa","initial_values":"dd"})";
  config_.expected_trainers = 1;
  begin();
  come("a", ours);
  EXPECT_NE(line_with(come("x", others), "begins with other initial values than the others"), "");
  EXPECT_EQ(dismissed(), std::vector<std::string>{"w-x"});
}

TEST_F(Fingerprints, OtherInitialValuesWhereARunGoesOn_CountForNothing) {
  config_.restorable = {{"step-8", 8, R"({"build":"1","first_gradient":"aa","initial_values":"ee"})"}};
  config_.expected_trainers = 2;
  config_.job.strict = true;
  begin();
  come("a", R"({"build":"1","first_gradient":"aa","initial_values":"cc"})");
  const auto effects = come("b", R"({"build":"1","first_gradient":"aa","initial_values":"dd"})");
  EXPECT_EQ(line_with(effects, "was written by another"), "");
  EXPECT_EQ(machine_->members().size(), 2U);
}

TEST_F(Fingerprints, JoinerOfAnotherBuild_TheLineNamesWhatDiffersAndHasNoJson) {
  config_.expected_trainers = 1;
  begin();
  come("a", kOurs);
  const std::string line = line_with(come("x", kOtherBuild), "does not match the other trainers");
  EXPECT_NE(line.find("trainer x on h-x does not match the other trainers: it has build 2 (not 1)"),
            std::string::npos)
      << line;
  EXPECT_EQ(line.find('{'), std::string::npos) << line;
}

TEST_F(Fingerprints, GpusOfTwoNamesWithTheSameBits_TrainTogether) {
  config_.expected_trainers = 2;
  begin();
  come("a", kSmallGpu);
  come("b", kLargeGpu);
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->members().size(), 2U);
  come("late", kLargeGpu);
  EXPECT_TRUE(machine_->trainers().contains("late"));
}

TEST_F(Fingerprints, GpusWithOtherBits_TheMajorityTrains_AndTheHintNamesGpus) {
  config_.expected_trainers = 3;
  begin();
  come("a", kOtherGpu);
  come("b", kSmallGpu);
  EXPECT_NE(line_with(come("c", kLargeGpu), "computes other bits"), "");
  EXPECT_EQ(machine_->members(), (std::vector<std::string>{"b", "c"}));
  ASSERT_EQ(of<Dismiss>(all_).size(), 1U);
  const std::string why = of<Dismiss>(all_)[0].why;
  EXPECT_NE(why.find("all trainers of a run need CPUs and GPUs of one kind"), std::string::npos) << why;
}

TEST_F(Fingerprints, FirstGenerationHasTheBitsOfTheMajority_InAnyOrderOfArrival) {
  for (const std::string odd : {"a", "b", "c"}) {
    config_.expected_trainers = 3;
    begin();
    std::vector<Effect> effects;
    for (const std::string name : {"a", "b", "c"}) effects = come(name, name == odd ? kOtherBits : kOurs);
    EXPECT_NE(line_with(effects, "computes other bits"), "") << odd;
    EXPECT_EQ(dismissed(), std::vector<std::string>{"w-" + odd});
    EXPECT_EQ(machine_->phase(), Phase::kRunning);
    EXPECT_EQ(machine_->members().size(), 2U);
    EXPECT_FALSE(machine_->trainers().contains(odd));
    // The run uses the fingerprint of the others from now on.
    come("late", kOtherBits);
    EXPECT_FALSE(machine_->trainers().contains("late"));
  }
}

TEST_F(Fingerprints, TwoTrainersThatDiffer_TheRunEndsWithOneLineThatNamesBoth) {
  config_.expected_trainers = 2;
  begin();
  come("a", kOurs, "AMD EPYC");
  come("b", kOtherBits, "Intel Xeon");
  for (const std::string name : {"a", "b"}) say(TrainerExited{name, false, 0}, "w-" + name);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  for (const char* part : {"trainer a on h-a (AMD EPYC)", "trainer b on h-b (Intel Xeon)", "no majority"})
    EXPECT_NE(finish()->line.find(part), std::string::npos) << finish()->line;
  EXPECT_TRUE(sent<Start>(all_).empty());
}

// Two against two: a larger number of trainers would not help.
TEST_F(Fingerprints, HalfAreNoMajority) {
  config_.expected_trainers = 4;
  begin();
  int i = 0;
  for (const std::string name : {"a", "b", "c", "d"}) come(name, i++ % 2 == 0 ? kOurs : kOtherBits);
  EXPECT_EQ(machine_->phase(), Phase::kQuitting);
}

TEST_F(Fingerprints, TooFewAreLeftOfTheMajority_TheRunWaits) {
  config_.expected_trainers = config_.job.min_trainers = 3;
  begin();
  come("a", kOurs);
  come("b", kOurs);
  come("c", kOtherBits);
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  come("d", kOurs);
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->members().size(), 3U);
}

TEST_F(Fingerprints, HelpersHaveNoVoteBesideTheRunsOwnTrainers) {
  config_.expected_trainers = 1;
  begin();
  help("x", kOtherBits);
  help("y", kOtherBits);
  come("a", kOurs);
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"a"});
  EXPECT_EQ(dismissed(), (std::vector<std::string>{"w-x", "w-y"}));
}

TEST_F(Fingerprints, WorkerOfSeveralTrainersIsRefusedOnce) {
  config_.expected_trainers = 5;
  begin();
  for (const std::string name : {"a", "b", "c"}) come(name, kOurs);
  ready("x1", kOtherBits, "odd");
  ready("x2", kOtherBits, "odd");
  EXPECT_EQ(machine_->members().size(), 3U);
  EXPECT_EQ(dismissed(), std::vector<std::string>{"w-odd"});
}

// A new coordinator has no information about the vote of the first generation; the members of the running
// generation report the result.
TEST_F(Fingerprints, NewCoordinator_TheRunningGenerationsBitsCountNotTheMajoritys) {
  config_.expected_trainers = 1;
  begin();
  come("a", kOurs);
  Start start = sent<Start>(all_).front().second;
  start.generation = machine_->generation();
  TrainerState running;
  running.ready = machine_->trainers().at("a").ready;
  running.started = start;
  config_.restarted = true;
  ++config_.term;
  begin();
  come("x", kOtherBits);
  come("y", kOtherBits);
  feed(WorkerRegistered{{"w-a", "h-a", "build", 1, {running}}});
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"a"});
  EXPECT_EQ(machine_->trainers().size(), 1U);
}

TEST_F(Fingerprints, ResumeWithOtherBits_WarnsOnceAndStrictRefuses) {
  config_.expected_trainers = 1;
  config_.restorable = {{"step-8", 8, kOtherBits}};
  begin();
  EXPECT_NE(line_with(come("a", kOurs), "from here on the bits differ"), "");
  // The trainer dies before a step, and the next one restores the same checkpoint.
  say(TrainerExited{"a", true, 9}, "w-a");
  come("b", kOurs);
  pass(Time(40000));
  EXPECT_EQ(machine_->generation().number, 2U);
  EXPECT_NE(line_with(all_, "from here on the bits differ"), "");

  config_.job.strict = true;
  begin();
  come("a", kOurs);
  say(TrainerExited{"a", false, 0}, "w-a");
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
}

TEST_F(Fingerprints, ResumeOfAScriptWithOtherBits_NamesItsDataToo) {
  const std::string data = ", or with other data";
  config_.expected_trainers = 1;
  config_.restorable = {{"step-8", 8, kOtherBits}};
  begin();
  EXPECT_EQ(line_with(come("a", kOurs), data), "") << "data of a built-in model have a hash";
  config_.job.task.script = "/train.py";
  begin();
  EXPECT_NE(line_with(come("a", kOurs), str("machine", data, ": the trainers have")), "");
  config_.job.strict = true;
  begin();
  come("a", kOurs);
  say(TrainerExited{"a", false, 0}, "w-a");
  ASSERT_TRUE(finish());
  EXPECT_NE(finish()->line.find(data), std::string::npos) << finish()->line;
  config_.job.strict = false;
  config_.restorable = {{"step-8", 8, kOtherBuild}};
  begin();
  EXPECT_EQ(line_with(come("a", kOurs), data), "") << "the first micro-batch has the same result";
}

TEST_F(Fingerprints, ResumeWithTheSameBitsAndAnotherBuild_TheyMayDiffer) {
  config_.expected_trainers = 1;
  config_.restorable = {{"step-8", 8, kOtherBuild}};
  begin();
  const std::string line = line_with(come("a", kOurs), "from here on the bits may differ");
  EXPECT_NE(line.find("the trainers have build 1 (not 2)"), std::string::npos) << line;
}

TEST_F(Fingerprints, StartTableHasTheTimeOfTheCheck) {
  config_.expected_trainers = 1;
  begin();
  std::string table;
  for (const Info& info : of<Info>(come("a", kOurs))) table += info.line + "\n";
  EXPECT_NE(table.find("  self-check  "), std::string::npos) << table;
  EXPECT_NE(table.find(" 12 ms "), std::string::npos) << table;
}

}  // namespace
}  // namespace rekindle::protocol
