// Scripts that do what few do (tests/python/unusual.py): the same bits, or one clear line.
#include <gmock/gmock.h>

#include <fstream>

#include "base/process.hpp"
#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonUnusual : public Python {
 protected:
  Arguments of(const std::string& name, int workers, const std::string& which, int loaders = 0) const {
    return local(scratch_ / name, workers, "shm", loaders,
                 fs::path(REKINDLE_SOURCE) / "tests/python/unusual.py", {which});
  }
  std::string bits(const std::string& name, int workers, const std::string& which, int loaders = 0,
                   const Arguments& more = {}) const {
    Arguments arguments = of(name, workers, which, loaders);
    arguments.insert(arguments.begin() + 1, more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return digest_of(scratch_ / name);
  }
  void expect_refused(const std::string& which, int exit_code, const std::string& text) const {
    const Outcome outcome = run(of(which, 1, which));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, testing::HasSubstr(text));
  }
};

TEST_F(PythonUnusual, BlockThatIsAppliedTwiceUnderCheckpoint_HasTheSumOfItsGradients) {
  EXPECT_EQ(bits("checkpointed", 2, "checkpointed"), bits("plain", 1, "plain"));
}

// As those of large layers (python/rekindle/_linear.py), here of all.
TEST_F(PythonUnusual, GradientsThatAreComputedInTheirPlaces_SameDigest) {
  const std::string plain = bits("plain", 1, "plain");
  for (const std::string which : {"in-places", "in-places-checkpointed", "in-places-again"})
    EXPECT_EQ(bits(which, 2, which), plain) << which;
}

TEST_F(PythonUnusual, LinearLayersInPlaces_HaveTheBitsOfTorchs) {
  const Outcome outcome = python({fs::path(REKINDLE_SOURCE) / "tests/python/linear.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(PythonUnusual, LossWithABackwardPassOfItsOwn_SameDigest) {
  const std::string own = bits("w1", 1, "own-backward");
  EXPECT_EQ(bits("w2", 2, "own-backward"), own);
  EXPECT_NE(bits("plain", 1, "plain"), own);
}

TEST_F(PythonUnusual, ParameterThatIsFrozenAtFirst_IsTrainedLater) {
  const std::string unfrozen = bits("w1", 1, "unfreezes");
  EXPECT_EQ(bits("w2", 2, "unfreezes"), unfrozen);
  EXPECT_NE(bits("plain", 1, "plain"), unfrozen);
}

TEST_F(PythonUnusual, CompiledModelWithBatchesOfManyShapes_EachIsCompiledByItself) {
  EXPECT_EQ(bits("w2", 2, "shapes"), bits("w1", 1, "shapes"));
}

// A description may not compile, which takes minutes, and computes as the trainers do.
TEST_F(PythonUnusual, MetricsOfADescription_WithoutTheCompilerAndInThePrecisionOfTheRun) {
  EXPECT_EQ(bits("compiled", 1, "described").size(), 33U);
  const Outcome half = run(of("half", 1, "half") + Arguments{"precision='bf16'"});
  EXPECT_EQ(half.exit_code, 0) << half.out << half.err;
}

TEST_F(PythonUnusual, ParametersThatTheForwardPassChanges_Refused) {
  expect_refused("teacher", 70,
                 "the script changed parameter teacher.first.weight while it computed a gradient");
}

// As pip installs it: the folder above the package has the other packages of an environment, which is not
// that of the interpreter.
TEST_F(PythonUnusual, PackagesOfTheEnvironmentWithRekindle_NotTheScripts) {
  const fs::path built = fs::path(rekindle()).parent_path(), package = scratch_ / "site" / "rekindle";
  fs::create_directories(package / "bin");
  for (const auto& file : fs::directory_iterator(built / "python" / "rekindle"))
    fs::create_symlink(file.path(), package / file.path().filename());
  fs::create_symlink(built / "lib", package / "bin" / "lib");
  for (const std::string name : {"rekindle", "rekindle-control"})
    fs::copy_file(built / name, package / "bin" / name);
  std::ofstream(scratch_ / "site" / "planted.py") << "";
  const std::string looks = script("looks.py", R"(
import importlib.util, torch, rekindle
if importlib.util.find_spec("planted"):
    raise SystemExit("a package of another environment")
samples = torch.utils.data.TensorDataset(torch.ones(8, 4), torch.zeros(8, dtype=torch.long))
rekindle.run(
    model=lambda: torch.nn.Linear(4, 2),
    loss=lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]),
    train_data=samples, batch_size=8, micro_batches=2, steps=1, loader_threads=0)
)");
  Program program({package / "bin" / "rekindle", "local", "--run-dir", scratch_ / "run", looks});
  const Outcome done = program.wait();
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
}

TEST_F(PythonUnusual, InterpreterThatTheEnvironmentNames_AlsoOfTheInstalledCommand) {
  ::setenv("REKINDLE_PYTHON", "/none/python3", 1);
  const Outcome none = python({"-m", "rekindle", "local", "--run-dir", scratch_ / "run", everything()});
  EXPECT_EQ(none.exit_code, 78) << none.out << none.err;
  EXPECT_THAT(none.err, testing::HasSubstr("there is no /none/python3"));
}

TEST_F(PythonUnusual, OptimizerThatDraws_SameDigest) {
  EXPECT_EQ(bits("w2", 2, "noisy"), bits("w1", 1, "noisy"));
}

// Its number comes back after a stop.
TEST_F(PythonUnusual, OptimizerWithNothingButANumber_SameDigestAfterAResume) {
  const std::string calm = bits("calm", 1, "counting");
  bits("stopped", 2, "counting", 0, {"--steps", "5"});
  EXPECT_EQ(bits("stopped", 1, "counting"), calm);
}

// Adagrad makes its state in its constructor.
TEST_F(PythonUnusual, OptimizerWhoseStateBeginsEarly_SameDigestAfterAResume) {
  const std::string calm = bits("calm", 1, "adagrad");
  bits("stopped", 2, "adagrad", 0, {"--steps", "5"});
  EXPECT_EQ(bits("stopped", 1, "adagrad"), calm);
}

TEST_F(PythonUnusual, WeightNormAndAnOptimizerOfTheScript_SameDigest) {
  EXPECT_EQ(bits("w2", 2, "weight-norm"), bits("w1", 1, "weight-norm"));
}

// Its state is known from steps of a copy, whose gradients are zero at first.
TEST_F(PythonUnusual, OptimizerThatBeginsWithItsFirstGradient_SameDigestAfterAResume) {
  const std::string expected = bits("w1", 1, "largest");
  EXPECT_EQ(bits("resumed", 2, "largest", 0, {"--steps", "5"}).size(), 33U);
  EXPECT_EQ(bits("resumed", 1, "largest"), expected);
}

TEST_F(PythonUnusual, NumberOfAnOptimizerThatACheckpointWouldChange_Refused) {
  expect_refused("late-float", 70,
                 "the optimizer's kept of first.weight became float, and was int in its first steps");
  expect_refused("late-large", 70,
                 "the optimizer's kept of first.weight became 9007199254740993, and was int");
}

TEST_F(PythonUnusual, BufferThatRepeatsItsElements_SameDigest) {
  EXPECT_EQ(bits("w2", 2, "expanded"), bits("w1", 1, "expanded"));
  const Outcome evaluated = run({"evaluate", scratch_ / "w2"});  // loads them
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.out << evaluated.err;
}

TEST_F(PythonUnusual, ModelWithAStateOutsideOfBuffers_Refused) {
  expect_refused("extra", 78, "_extra_state in the model's state_dict() is dict");
  expect_refused("extra-tensor", 78,
                 "state_dict() is neither a parameter nor a persistent buffer: only these are");
}

TEST_F(PythonUnusual, OptimizerThatHasAnother_Refused) {
  expect_refused("wrapped", 78, "the optimizer keeps another one in inner");
}

TEST_F(PythonUnusual, ModuleWithoutAShape_Refused) {
  expect_refused("lazy", 78, "the model's tensor weight has no shape yet");
}

TEST_F(PythonUnusual, SamplesThatThreadsComputed_SameDigestWhoeverLoadsThem) {
  const std::string here = bits("here", 1, "large", 0, {"--threads", "2"});
  EXPECT_EQ(bits("process", 1, "large", 1, {"--threads", "2"}), here);
}

// One of the three steps of each epoch.
TEST_F(PythonUnusual, StepsWhoseGradientIsNotFinite_ChangeNothingAndAreCounted) {
  const Arguments clipped = {"--clip-norm", "1", "--ema", "0.9"};
  const std::string one = bits("w1", 1, "infinite", 0, clipped);
  EXPECT_EQ(bits("w2", 2, "infinite", 0, clipped + Arguments{"--steps", "5"}).size(), 33U);
  EXPECT_EQ(bits("w2", 2, "infinite", 0, clipped), one);
  for (const char* name : {"w1", "w2"}) {
    const fs::path dir = scratch_ / name;
    EXPECT_EQ(times_in(read_text(dir / "metrics.jsonl").value(), R"("voided":true)"), 4U);
    EXPECT_THAT(run({"status", dir}).out,
                testing::HasSubstr("4 steps whose gradient was not finite changed nothing"));
    EXPECT_THAT(run({"logs", dir}).out,
                testing::HasSubstr("is not finite, so the step changed nothing (4 such steps in this run)"));
  }
}

TEST_F(PythonUnusual, UnitTestsOfSettings) {
  const Outcome outcome = python({fs::path(REKINDLE_SOURCE) / "tests/python/settings.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

// It takes 3 s of a core to import, at each start of a trainer. Torch imports it when a script asks for it.
// The settings that make the bits are there without it.
TEST_F(PythonUnusual, ScriptThatCompilesNothing_ItsTrainersDoWithoutTheCompiler) {
  const std::string plain = script("plain.py", R"(
import os
import sys
import rekindle
import torch

def loss(model, batch):
    assert "torch._inductor" not in sys.modules
    assert os.environ["TORCHINDUCTOR_DETERMINISTIC"] == "1"
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1
    if hasattr(torch.utils, "deterministic"):  # from torch 2.2 on
        assert torch.utils.deterministic.fill_uninitialized_memory is False
    assert os.environ["PYTHONHASHSEED"] == "0"
    return model(batch[0]).square().mean()

rekindle.run(model=torch.nn.Linear(4, 1), loss=loss, steps=1, batch_size=8, micro_batches=1,
             train_data=torch.utils.data.TensorDataset(torch.ones(8, 4)))
)");
  const Outcome outcome = run(local(scratch_ / "run", 1, "shm", 0, plain));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST_F(PythonUnusual, ErrorWithANameThatIsNoUtf8_IsTold) {
  expect_refused("unreadable", 70, "cannot read a\\udcffb.png");
}

TEST_F(PythonUnusual, ProcessIsKilledWhileItSendsALargeBatch_IsReplaced) {
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} + of("run", 1, "texts", 2) + Arguments{"steps=100000"});
  const auto loaders = [&] {
    const auto trainers = trainers_of(dir);
    return trainers.empty() ? std::vector<pid_t>() : children_of(trainers.front());
  };
  for (int kills = 0; kills < 3; ++kills) {
    const auto before = reached_step(dir);
    ASSERT_TRUE(eventually([&] { return reached_step(dir) > before + 5 || !program.running(); }));
    std::vector<pid_t> found;
    ASSERT_TRUE(eventually([&] { return (found = loaders()).size() == 2 || !program.running(); }));
    ASSERT_EQ(found.size(), 2U);
    ::kill(found.front(), SIGKILL);
  }
  const auto before = reached_step(dir);
  EXPECT_TRUE(eventually([&] { return reached_step(dir) > before + 5 || !program.running(); }));
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("was lost"), std::string::npos) << outcome.out;
}

TEST_F(PythonUnusual, SplitAtRandom_EvaluateHasTheSameTestSamples) {
  bits("run", 2, "plain");
  const Outcome outcome = run({"evaluate", scratch_ / "run", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  const auto last = last_metrics(scratch_ / "run");
  EXPECT_NEAR(answer.at("loss"), last.at("test_loss"), 1e-5) << last;
}

// JSON has no such number.
TEST_F(Python, Evaluate_OfAMetricThatIsNotFinite) {
  const std::string train = script("train.py", R"(
import torch, rekindle
from torch.nn import functional
rekindle.run(model=lambda: torch.nn.Linear(4, 3),
             loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
             train_data=[(torch.ones(4), 1)] * 16, test_data=[(torch.ones(4), 1)] * 8,
             metrics=lambda model, batch: {"odd": (float("nan"), 8)}, batch_size=16, micro_batches=1, steps=1)
)");
  ASSERT_EQ(run({"local", "--run-dir", scratch_ / "run", train}).exit_code, 0);
  const Outcome outcome = run({"evaluate", scratch_ / "run", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(answer.at("odd").is_null()) << answer;
  EXPECT_TRUE(answer.at("loss").is_number()) << answer;
}

}  // namespace
}  // namespace rekindle::process_test
