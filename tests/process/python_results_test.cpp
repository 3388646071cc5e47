// What a run left behind, back in Python (docs/python.md).
#include <fstream>

#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonResults : public Python {
 protected:
  void SetUp() override {
    Python::SetUp();
    if (IsSkipped()) return;
    fs::create_directory(scratch_ / "run");
    std::ofstream(scratch_ / "run" / "run.toml") << "\n";
    std::ofstream(scratch_ / "run" / "metrics.jsonl")
        << "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 2, \"trainers\": 3}\n"
        << "{\"step\": 2, \"test_loss\": 1.5, \"host\": \"a\"}\n";
  }
  // What Python prints; `columns` are the metrics.
  Outcome with_columns(const std::string& code) const {
    return python({"-c", str("import rekindle\ncolumns = rekindle.open('", (scratch_ / "run").string(),
                             "').metrics()\n", code)});
  }
};

// As an evaluation's line has not what a step's line has.
TEST_F(PythonResults, MetricsWhoseLinesDiffer_AreColumnsOfOneLength) {
  const Outcome outcome =
      with_columns("for name, column in columns.items():\n    print(name, column.dtype, column.tolist())\n");
  EXPECT_EQ(outcome.out,
            "step int64 [1, 2, 2]\nloss float64 [2.5, 2.0, nan]\ntrainers float64 [nan, 3.0, nan]\n"
            "test_loss float64 [nan, nan, 1.5]\nhost object [None, None, 'a']\n")
      << outcome.err;
}

TEST_F(PythonResults, MetricsOfStepsAlone_HaveNoGapsOfEvaluations) {
  const Outcome outcome = with_columns(
      str("run = rekindle.open('", (scratch_ / "run").string(), "')\n",
          "print(run.metrics('steps')['loss'].tolist(), run.metrics('evaluations')['test_loss'])\n",
          "run.metrics('epochs')\n"));
  EXPECT_EQ(outcome.out, "[2.5, 2.0] [1.5]\n");
  EXPECT_NE(outcome.err.find(R"(lines is 'epochs': give "all", "steps" or "evaluations")"), std::string::npos)
      << outcome.err;
}

TEST_F(PythonResults, Metrics_MakeATableOfPandas) {
  if (python({"-c", "import pandas"}).exit_code != 0)
    REKINDLE_SKIP(Needs::kPython, "needs pandas (./dev python)");
  const Outcome outcome = with_columns(
      "import pandas\ntable = pandas.DataFrame(columns)\nprint(table.shape, list(table), "
      "table['loss'].mean())\n");
  EXPECT_EQ(outcome.out, "(3, 5) ['step', 'loss', 'trainers', 'test_loss', 'host'] 2.25\n") << outcome.err;
}

TEST_F(Python, TemporaryFolderIsFull_LoadNamesTmpdir) {
  const Outcome outcome = python({"-c", R"(
import rekindle
from rekindle import _results
def full(*words):
    raise rekindle.RekindleError(f"cannot write {words[-1]}: No space left on device", code=70)
def without_a_checkpoint(*words):
    raise rekindle.RekindleError("run has no checkpoint", code=78)
def no_folder():
    raise FileNotFoundError(2, "No usable temporary directory found")
def attempt():
    try:
        rekindle.load("run", None)
    except rekindle.RekindleError as error:
        print(error.code, "set TMPDIR to one with room" in error.hint)
for _results._ask in full, without_a_checkpoint:
    attempt()
_results.tempfile.TemporaryDirectory = no_folder
attempt()
)"});
  EXPECT_EQ(outcome.out, "70 True\n78 False\n78 True\n") << outcome.err;
}

// It puts a part into the names of the tensors.
TEST_F(Python, CheckpointOfACompiledModelIntoAPlainOneAndTheReverse_SaysSo) {
  const Outcome outcome = python({"-c", R"(
import torch
from rekindle import RekindleError
from rekindle._model import fill
class Box(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.add_module(name, torch.nn.Linear(2, 3))
plain, compiled, parallel, other = torch.nn.Linear(2, 3), Box("_orig_mod"), Box("module"), Box("other")
for model, of_run in (plain, compiled), (compiled, plain), (plain, parallel), (plain, other):
    try:
        fill(model, of_run.state_dict())
    except RekindleError as error:
        print(error.hint)
)"});
  EXPECT_EQ(outcome.out,
            "the run trained torch.compile(model): load into that; model.compile() keeps the names\n"
            "the run trained the model without torch.compile(model): load into that\n"
            "the run trained a wrapper such as DataParallel(model): load into that\n"
            "has the script changed?\n")
      << outcome.err;
}

TEST_F(Python, ModelThatCannotTakeACheckpoint_IsToldWhyAndStaysAsItWas) {
  const Outcome outcome = python({"-c", R"(
import torch
from torch import nn
from rekindle import RekindleError
from rekindle._model import fill
class Strict(nn.Linear):
    def _load_from_state_dict(self, *arguments):
        arguments[-1].append("the weight is no rotation")
whole, part = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)), nn.Sequential(nn.Linear(2, 3))
before = part[0].weight.detach().clone()
lazy, meta = nn.Sequential(nn.LazyLinear(3)), nn.Sequential(nn.Linear(2, 3, device="meta"))
half, strict = nn.Sequential(nn.Linear(2, 3)).bfloat16(), nn.Sequential(Strict(2, 3))
for model, state in (part, whole), (lazy, part), (meta, part), (half, part), (strict, part), (nn.Linear(2, 3), part[0]):
    try:
        fill(model, state.state_dict())
        print("filled")
    except RekindleError as error:
        print(error)
print(torch.equal(part[0].weight, before))
)"});
  const std::string other = "the checkpoint is of another model: ";
  EXPECT_EQ(
      outcome.out,
      str(other, "it has 1.weight, which the module has not: load into the whole model, then take the part\n",
          "the model's tensor 0.weight has no shape yet: call the model once first\n",
          "the model's tensor 0.weight has no memory: model.to_empty(device='cpu') first\n", other,
          "its 0.weight is float32 [3, 2], the model's is bfloat16 [3, 2]: load into a float32 model, "
          "then convert it\n",
          other, "the weight is no rotation: has the script changed?\nfilled\nTrue\n"))
      << outcome.err;
}

TEST_F(Python, FileOfPyTorch_IsConvertedByTheDocumentedCommand) {
  const Outcome outcome = python({fs::path(REKINDLE_SOURCE) / "tests/python/conversion.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(Python, StateOfAnOptimizer_ComesBackInAnotherOne) {
  const Outcome outcome = python({fs::path(REKINDLE_SOURCE) / "tests/python/optimizer_state.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

// With the moving average, as load() does. A module that changes after the run begins is told, and the run is
// there all the same.
TEST_F(Python, ModelThatIsAModule_IsFilledWhenTheRunReturns) {
  const std::string train = script("train.py", R"(
import sys, torch, rekindle
class Net(torch.nn.Linear):
    def forward(self, values):
        return super().forward(values)
def train(model):
    before = model.weight.detach().clone()
    run = rekindle.run(model=model, loss=lambda model, values: (model(values) ** 2).mean(), ema=0.9,
                       train_data=[torch.ones(4)] * 64, batch_size=16, micro_batches=2, steps=4, run_dir=sys.argv[2])
    print("changed", not torch.equal(model.weight, before), len(run.metrics("steps")["loss"]))
    return run, model
in_trainer = any("rekindle.trainer" in word for word in sys.orig_argv)
if sys.argv[1] == "plain":
    run, model = train(Net(4, 3))
    print("loaded", torch.equal(rekindle.load(run, Net(4, 3)).weight, model.weight))
elif sys.argv[1] == "compiled":
    model = Net(4, 3)
    model.compile(backend="eager")
    train(model)
else:
    train(Net(4, 3 if in_trainer else 5))
)");
  const auto trained = [&](const std::string& which) { return python({train, which, scratch_ / which}); };
  const Outcome plain = trained("plain");
  EXPECT_EQ(times_in(plain.out, "changed True 4\nloaded True\n"), 1U) << plain.out << plain.err;
  const Outcome compiled = trained("compiled");
  EXPECT_EQ(times_in(compiled.out, "changed True 4\n"), 1U) << compiled.out << compiled.err;
  const Outcome other = trained("other");
  EXPECT_EQ(other.exit_code, 0) << other.out << other.err;
  EXPECT_EQ(times_in(other.out, "changed False 4\n"), 1U) << other.out << other.err;
  EXPECT_EQ(times_in(other.err,
                     "rekindle: warning: run() leaves the model with its values from before the "
                     "run: the checkpoint is of another model: its weight is float32 [3, 4]"),
            1U)
      << other.err;
}

// One bit of a tensor, with which it would still be a number. load() gets no tensor of such a file.
TEST_F(Python, CheckpointWithAFlippedBit_IsNotLoadedAndTheModuleStaysAsItWas) {
  const std::string train = script("train.py", R"(
import json, sys, torch, rekindle
run = rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: (model(x) ** 2).mean(),
                   train_data=[torch.ones(4)] * 64, batch_size=16, micro_batches=2, steps=4, run_dir=sys.argv[1])
def attempt(source):
    model = torch.nn.Linear(4, 3)
    before = [each.clone() for each in model.parameters()]
    try:
        rekindle.load(source, model)
        print("loaded")
    except rekindle.RekindleError as error:
        print("is damaged: rows 0 to " in error.what, all(map(torch.equal, before, model.parameters())))
attempt(run)
checkpoint = run.checkpoints()[-1]
shard = json.loads((checkpoint / "manifest.json").read_text())["shards"][0]
place = shard["datasets"][0]["offset"]
with open(checkpoint / shard["file"], "r+b") as file:
    file.seek(place)
    byte = file.read(1)[0]
    file.seek(place)
    file.write(bytes([byte ^ 1]))
attempt(run)
attempt(checkpoint)
)");
  const Outcome outcome = python({train, scratch_ / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "loaded\nTrue True\nTrue True\n"), 1U) << outcome.out << outcome.err;
}

// Each trainer loads the first run when it makes the model.
TEST_F(Python, AnotherHeadOnTheWeightsOfAFirstRun_IsTrained) {
  const std::string train = script("train.py", R"(
import os, sys, torch, rekindle
from torch import nn
def first():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
def second():
    net = rekindle.load("first", first())
    net[0].requires_grad_(False)
    net[2] = nn.Linear(4, 5)
    return net
os.chdir(sys.argv[1])
run = rekindle.run(model={"first": first, "second": second}[sys.argv[2]], run_dir=sys.argv[2], workers=2,
                   loss=lambda model, x: (model(x) ** 2).mean(), train_data=[torch.ones(4)] * 64, batch_size=16,
                   micro_batches=2, steps=4)
if sys.argv[2] == "second":
    print(torch.equal(rekindle.load(run, second())[0].weight, rekindle.load("first", first())[0].weight))
)");
  for (const char* name : {"first", "second"}) {
    const Outcome outcome = python({train, scratch_.path(), name});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(times_in(outcome.out, "True\n"), std::string(name) == "second" ? 1U : 0U) << outcome.out;
  }
}

}  // namespace
}  // namespace rekindle::process_test
