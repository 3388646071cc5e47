// Models in Python (docs/python.md): the promises of a C++ model hold for a script.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

TEST_F(Python, AnyNumberOfWorkersAndLoaders_SameDigest) {
  const std::string expected = digest("w1", 1, "shm", 0);
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest("w2", 2, "shm", 2), expected);
  EXPECT_EQ(digest("w3", 3, "tcp", 0), expected);
  EXPECT_EQ(digest("w8", 8, "shm", 0), expected);
}

TEST_F(Python, AStopAndAKill_SameDigest) { expect_same_after_a_stop_and_a_kill(3, 2, {"steps=150"}); }

TEST_F(Python, OptimizersClippingAverageAndSchedule_SameDigest) {
  const Arguments options = {"optimizer=AdamW", "clip_norm=0.5", "ema=0.9", "schedule=None"};
  const std::string expected = digest("w1", 1, "shm", 0, options);
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest("w2", 2, "tcp", 2, options), expected);
  const std::string bf16 = digest("bf16-w1", 1, "shm", 0, {"precision='bf16'"});
  EXPECT_EQ(digest("bf16-w2", 2, "shm", 0, {"precision='bf16'"}), bf16);
}

TEST_F(Python, OptimizerOfTheScript_AnyNumberOfWorkersAndLoaders_SameDigest) {
  const std::string expected = digest("w1", 1, "shm", 0, {"optimizer=own"});
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest("w2", 2, "shm", 2, {"optimizer=own"}), expected);
  EXPECT_EQ(digest("w3", 3, "tcp", 0, {"optimizer=own"}), expected);
  EXPECT_EQ(digest("w8", 8, "shm", 0, {"optimizer=own"}), expected);
}

// Its state begins in its first step, and a trainer that is copied to takes it over.
TEST_F(Python, OptimizerOfTheScriptAStopAndAKill_SameDigest) {
  expect_same_after_a_stop_and_a_kill(2, 3, {"optimizer=own", "steps=150", "ema=0.9"});
}

TEST_F(Python, OptimizerThatCountsInItsGroupsAStopAndAKill_SameDigest) {
  expect_same_after_a_stop_and_a_kill(2, 3, {"optimizer=counting", "steps=150"});
}

// In a real model a second optimizer would update what is no matrix.
TEST_F(Python, MuonAStopAndAKill_SameDigest) {
  if (python({"-c", "import torch; torch.optim.Muon"}).exit_code != 0)
    REKINDLE_SKIP(Needs::kMachine, "this PyTorch has no Muon");
  expect_same_after_a_stop_and_a_kill(2, 3, {"optimizer=muon", "steps=60"});
}

// Before the trainers are ready, and then again and again.
TEST_F(Python, ProcessesThatLoadSamplesAreKilled_NoTrainerIsLost) {
  const std::string expected = digest("calm", 1, "shm", 0, {"steps=100"});
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 1, everything(), {"steps=100"}));
  const auto line_of = [](pid_t pid) {
    std::ifstream file(str("/proc/", pid, "/cmdline"));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  int kills = 0;
  for (std::uint64_t next = 0; program.running() && next < 60;) {
    bool found = false;
    for (const pid_t pid : processes_with(dir)) {
      for (const pid_t child : children_of(pid)) {
        if (line_of(pid).find("rekindle.trainer") == std::string::npos || line_of(pid) != line_of(child))
          continue;
        found = true;
        kills += ::kill(child, SIGKILL) == 0 ? 1 : 0;
      }
    }
    if (!found) continue;
    next = reached_step(dir) + 10;
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= next || !program.running(); }));
  }
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("was lost"), std::string::npos) << outcome.out;
  EXPECT_GE(kills, 4);
  EXPECT_EQ(digest_of(dir), expected);
}

TEST_F(Python, ScheduleThatIsAFunction_SameDigestAndItsFactorIsUsed) {
  const std::string constant = digest("constant", 1, "shm", 0);
  EXPECT_EQ(digest("one", 1, "shm", 0, {"schedule=one"}), constant);
  const std::string falling = digest("falling", 1, "shm", 0, {"schedule=falling"});
  EXPECT_NE(falling, constant);
  EXPECT_EQ(digest("w3", 3, "tcp", 0, {"schedule=falling"}), falling);
  std::ifstream metrics(scratch_ / "w3/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const auto of_step = nlohmann::json::parse(line);
    if (of_step.contains("lr")) {
      EXPECT_NEAR(of_step.at("lr"), 0.02 * std::pow(0.9, of_step.at("step").get<int>() - 1), 1e-9) << line;
    }
  }
}

TEST_F(Python, CompiledModel_SameDigest) {
  const std::string expected = digest("w1", 1, "shm", 0, {"compile=True"});
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest("w2", 2, "tcp", 1, {"compile=True"}), expected);
}

// A checkpoint has a tied tensor once, and an export has each of its names.
TEST_F(Python, TiedWeightsAndOwnOptimizer_ComeBackIntoPython) {
  const std::string train = script("train.py", str(R"(
import torch, rekindle
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)
        self.last = torch.nn.Linear(4, 4, bias=False)
        self.last.weight = self.first.weight
    def forward(self, values):
        return self.last(self.first(values))
def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)
run = rekindle.run(model=Net, loss=lambda model, batch: (model(batch) ** 2).mean(), train_data=[torch.ones(4)] * 64,
                   optimizer=optimizer, batch_size=16, micro_batches=4, steps=7, run_dir=")",
                                                   (scratch_ / "run").string(), R"(")
model = Net()
mine = optimizer(model.parameters())
rekindle.load(run.path, model, mine)
print("steps", float(mine.state[model.first.weight]["step"]), model.last.weight is model.first.weight)
file = rekindle._results._read(run.path)
print("names", sorted(file), torch.equal(file["first.weight"], file["last.weight"]))
)"));
  const Outcome outcome = python({train});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "steps 7.0 True"), 1U) << outcome.out;
  EXPECT_EQ(times_in(outcome.out, "names ['first.weight', 'last.weight'] True"), 1U) << outcome.out;
}

TEST_F(Python, Evaluate_GivesTheNumbersOfTheRunsLastEvaluation) {
  digest("run", 2, "shm", 0);
  const Outcome outcome = run({"evaluate", scratch_ / "run", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  const auto last = last_metrics(scratch_ / "run");
  EXPECT_EQ(answer.at("test_count"), 40) << outcome.out;
  EXPECT_NEAR(answer.at("loss"), last.at("test_loss"), 1e-5) << last;
  EXPECT_NEAR(answer.at("accuracy"), last.at("test_accuracy"), 1e-6) << last;
  const Outcome audit = run({"audit", scratch_ / "run", "--from", "0", "--to", "12"});
  EXPECT_EQ(audit.exit_code, 0) << audit.out << audit.err;
  EXPECT_EQ(times_in(audit.out, "bit-identical"), 1U) << audit.out;
  const Outcome other = run({"evaluate", scratch_ / "run", "--image-size", "32"});
  EXPECT_EQ(other.exit_code, 64);
  EXPECT_EQ(times_in(other.err, "the script itself decides that"), 1U) << other.err;
}

TEST_F(Python, ScriptIsEditedWhileItsRunLives_TrainersStillRunWhatTheRunBeganWith) {
  const Arguments arguments = {"steps=150"};
  const std::string expected = digest("calm", 1, "shm", 0, arguments);
  const std::string edited = script("edited.py", read_text(everything()).value());
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 0, edited, arguments));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 2 || !program.running(); }));
  script("edited.py", "raise RuntimeError('half an edit')\n");
  std::vector<pid_t> trainers;
  ASSERT_TRUE(eventually([&] { return (trainers = trainers_of(dir)).size() == 2 || !program.running(); }));
  ASSERT_EQ(trainers.size(), 2U);
  for (const pid_t trainer : trainers) ::kill(trainer, SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(digest_of(dir), expected);
}

TEST_F(Python, TwentyRandomKills_SameDigest) { expect_same_after_random_kills({}); }

TEST_F(Python, OptimizerOfTheScript_TwentyRandomKills_SameDigest) {
  expect_same_after_random_kills({"optimizer=own"});
}

// Its spare begins 10 s after the trainer did. It learns only then which part of a GPU (MIG) it sees. The
// script does not see the number that either has on this machine.
TEST_F(Python, TrainerDies_TheSpareInterpreterTakesItsPlace) {
  const fs::path dir = scratch_ / "run";
  const std::string numbered =
      script("numbered.py", str("import os\nprint('number', os.environ.get('LOCAL_RANK'), "
                                "os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True)\nexec(open('",
                                everything(), "').read())\n"));
  ::setenv("LOCAL_RANK", "7", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b", 1);
  Program program(Arguments{rekindle()} + local(dir, 1, "shm", 0, numbered, {"steps=1000000"}));
  ::unsetenv("LOCAL_RANK");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const auto trainer = [&]() -> pid_t {
    const auto trainers = trainers_of(dir);
    return trainers.empty() ? 0 : trainers.front();
  };
  ASSERT_TRUE(eventually([&] { return (!spares_of(dir).empty() && trainer() != 0) || !program.running(); }));
  const pid_t spare = spares_of(dir).front(), first = trainer();
  ASSERT_NE(first, 0) << program.printed();
  ASSERT_NE(spare, first);
  ::kill(first, SIGKILL);
  EXPECT_TRUE(eventually([&] { return trainer() == spare || !program.running(); }));
  const auto reached = reached_step(dir);
  EXPECT_TRUE(eventually([&] { return reached_step(dir) > reached + 5 || !program.running(); }));
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75);
  EXPECT_EQ(times_in(outcome.out, "number None MIG-a\n"), 2U) << outcome.out;
}

// As Slurm does at the time limit, or an administrator.
TEST_F(Python, SigtermToEveryProcess_SavedAndGoesOnWithTheSameDigest) {
  const Arguments arguments = {"steps=150"};
  const std::string expected = digest("calm", 1, "shm", 0, arguments);
  const fs::path dir = scratch_ / "ended";
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 1, everything(), arguments));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 3 || !program.running(); }));
  for (const pid_t pid : processes_with(dir)) ::kill(pid, SIGTERM);
  const Outcome ended = program.wait();
  EXPECT_EQ(ended.exit_code, 75) << ended.out << ended.err;
  EXPECT_EQ(run(local(dir, 3, "tcp", 0, everything(), arguments)).exit_code, 0);
  EXPECT_EQ(digest_of(dir), expected);
}

TEST_F(Python, RunByPython_ReturnsTheRun) {
  const std::string train = script("train.py", R"(
import os, torch, rekindle
from torch.nn import functional
def data():
    return [(torch.full((4,), float(i % 3)), i % 3) for i in range(64)]
def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])
run = rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=loss, train_data=data, batch_size=16, steps=20,
                   optimizer=rekindle.SGD(lr=0.1), run_dir="RUN", workers=2)
columns = run.metrics()
print("after", run.path.name, len(columns["step"]), columns["loss"][-1] < columns["loss"][0])
model = rekindle.load(run.path, torch.nn.Linear(4, 3))
print("loaded", float(loss(model, [torch.stack([x for x, _ in data()]), torch.tensor([y for _, y in data()])])) < 1.2)
count = len(run.checkpoints())
os.mkdir(run.path / "checkpoints/step-0000000003.t1.g1.damaged")
(run.path / "checkpoints/step-0000000003.t1.g1.damaged/manifest.json").touch()
(run.path / "checkpoints/step-0000000004.t1.g1").symlink_to(run.checkpoints()[-1])
with (run.path / "metrics.jsonl").open("a") as file:
    file.write('{"step": 2')  # torn
print("listed", count > 0, len(run.checkpoints()) == count, len(run.metrics()["step"]))
(run.path / "checkpoints").rename(run.path / "kept")
print("none", run.checkpoints())
(run.path / "checkpoints").touch()
try: run.checkpoints()
except rekindle.RekindleError as error: print("no folder", error.what.removeprefix(str(run.path)))
def said(make):
    metrics = run.path / "metrics.jsonl"
    metrics.unlink()
    make(metrics)
    try:
        return run.metrics()
    except rekindle.RekindleError as error:
        return error.what.removeprefix(str(metrics))
print("pipe", said(os.mkfifo))
print("link", said(lambda path: path.symlink_to("/etc/passwd")))
def sparse(path):
    path.touch()
    os.truncate(path, 60 << 30)
print("sparse", said(sparse))
)");
  std::string text = read_text(train).value();
  std::ofstream(train) << text.replace(text.find("RUN"), 3, scratch_ / "run");
  const Outcome outcome = python({train});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "after run 20 True"), 1U) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "loaded True"), 1U) << outcome.out;
  for (const char* line : {"listed True True 20\n", "none []\n", "no folder /checkpoints cannot be read\n",
                           "pipe  is not a regular file\n", "link  cannot be opened\n",
                           "sparse  has a line of more than 1048576 bytes\n"})
    EXPECT_EQ(times_in(outcome.out, line), 1U) << line << outcome.out << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
