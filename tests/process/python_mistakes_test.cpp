// Mistakes in a script (docs/python.md): one line names each.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

struct Mistake {
  const char* name;
  const char* model;
  const char* loss;
  const char* data;
  const char* message;
  const char* options = "";  // more arguments of run()
  std::size_t times = 1;     // that the message is shown
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class PythonMistake : public Python, public testing::WithParamInterface<Mistake> {};

constexpr const char* kModel = "torch.nn.Linear(4, 3)";
constexpr const char* kLoss = "functional.cross_entropy(model(batch[0]), batch[1])";
constexpr const char* kData = "[(torch.ones(4), 1)] * 64";

INSTANTIATE_TEST_SUITE_P(
    All, PythonMistake,
    testing::Values(
        Mistake{"LossNotScalar", kModel, "model(batch[0])", kData, "the loss is [16, 3]: return a scalar"},
        Mistake{"LossWithoutGradient", kModel, "torch.zeros(())", kData, "the loss has no gradient"},
        Mistake{"NoModule", "3", kLoss, kData, "model is int: give a torch.nn.Module"},
        Mistake{"OtherType", "torch.nn.Linear(4, 3).double()", kLoss, kData,
                "parameter weight is torch.float64: parameters have to be float32; precision='bf16' computes "
                "with bfloat16"},
        Mistake{"ConstantThatChanges", "Counting()", kLoss, kData,
                "buffer calls has changed, and is not persistent"},
        Mistake{"Iterable", kModel, kLoss, "iter([1, 2])", "which has no __getitem__ and __len__"},
        Mistake{"IterableDatasetWithALength", kModel, kLoss, "Streaming()",
                "train_data is Streaming, which has no __getitem__ and __len__: use a map-style data set"},
        Mistake{"UnknownArgument", kModel, kLoss, kData,
                "run() has no argument batchsize: did you mean batch_size?", ", batchsize=3"},
        Mistake{"OptimizerWithClosure", kModel, kLoss, kData, "one that needs a closure is not supported",
                ", optimizer=lambda parameters: torch.optim.LBFGS(parameters)"},
        Mistake{"OptimizerWithALateState", kModel, kLoss, kData, "the optimizer made late of weight",
                ", optimizer=lambda parameters: Late(parameters, lr=0.1)",
                9},  // twice for each try, and at the end
        Mistake{"ProcessThatLoadsSamplesLeaves", kModel, kLoss, "Leaving()",
                "that load the samples of step 0", ", loader_threads=1"},
        Mistake{"BatchWithGradients", kModel, kLoss, kData,
                "a batch cannot be sent by the process that loaded it: RuntimeError: Cowardly refusing",
                ", loader_threads=1, collate=with_gradients"},
        Mistake{"BatchThatCannotBePickled", kModel, kLoss, kData,
                ": samples and batches must be picklable, their tensors without gradients",
                ", loader_threads=1, collate=lambda samples: (samples, lambda: 0)"},
        Mistake{"SharedMemoryIsFull", kModel, kLoss, kData,
                "die: killed by signal 7: is there too little room in /dev/shm?",
                ", loader_threads=1, collate=lambda samples: signal.raise_signal(signal.SIGBUS)"},
        Mistake{"ProcessThatLoadsIsKilled", kModel, kLoss, kData,
                "die: killed by signal 9: most often too little memory",
                ", loader_threads=1, collate=lambda samples: signal.raise_signal(signal.SIGKILL)"},
        Mistake{"TooManySamples", kModel, kLoss, "Endless()", "has 4294967296 samples, more than 4294967295"},
        Mistake{"MetricsAreNoPairs", kModel, kLoss, kData, "metrics did not return pairs",
                ", test_data=[(torch.ones(4), 1)] * 8, metrics=lambda model, batch: {'accuracy': 0.5}"},
        Mistake{
            "MetricWithACountThatIsNotWhole", kModel, kLoss, kData,
            "the count of metric weighted is 4.5, and no whole number",
            ", test_data=[(torch.ones(4), 1)] * 8, metrics=lambda model, batch: {'weighted': (4.5, 4.5)}"},
        Mistake{"DataLoader", kModel, kLoss, "torch.utils.data.DataLoader([1, 2])",
                "train_data is a DataLoader: give its dataset"},
        Mistake{"OptionOfAnOptimizerThatTheScriptMakes", kModel, kLoss, kData,
                "--eps with an optimizer that the script makes",
                ", optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), eps=1e-4"},
        Mistake{"ProcessGroup", "torch.distributed.init_process_group('gloo') or torch.nn.Linear(4, 3)",
                kLoss, kData, "the script calls init_process_group(): leave it out"},
        Mistake{"OtherSamplesEachTime", kModel, kLoss, "Drawing()",
                "look in the script for random numbers without a seed"},
        Mistake{"GeneratorOfTheDataSet", kModel, kLoss, "Keeping()",
                "generators that the data set keeps (seed these in __getitem__ from torch.initial_seed())"},
        Mistake{"ModelElsewhere", "torch.nn.Linear(4, 3, device='meta')", kLoss, kData,
                "the model's tensor weight is on meta: leave the model on the CPU"},
        Mistake{"StateLargerThanTheMemory", "Huge()", kLoss, kData, "there is not enough memory"},
        Mistake{"LossExits", kModel, "sys.exit(3)", kData, "SystemExit: 3"},
        Mistake{"LossInterrupts", kModel, "interrupt()", kData, "KeyboardInterrupt"},
        Mistake{"LossRaises", kModel, "1 / 0", kData, "ZeroDivisionError: division by zero",
                ", test_data=[(torch.ones(4), 1)] * 8"},
        Mistake{"OperatorThatIsNotDeterministic", kModel,
                "model(batch[0]).put_(torch.tensor([0]), torch.ones(1)).mean()", kData,
                "RuntimeError: put_ does not have a deterministic implementation"},
        Mistake{"LossThatNeedsTheOutputsOfTraining", "Auxiliary()",
                "functional.cross_entropy(model(batch[0])[0], batch[1])", kData,
                "the loss fails in eval() mode, in which it is computed for test_data: ",
                ", test_data=[(torch.ones(4), 1)] * 8"},
        Mistake{"TestSamplesOfAnotherShape", kModel, kLoss, kData,
                "the loss fails for test_data: RuntimeError: mat1 and mat2 shapes cannot be multiplied",
                ", test_data=[(torch.ones(5), 1)] * 8"},
        Mistake{"TestSampleThatCannotBeRead", kModel, kLoss, kData,
                "test_data[0]: KeyError: 'no such file': the first evaluation would end the run",
                ", test_data=Broken()"},
        Mistake{"DatasetRaises", kModel, kLoss, "Broken()", "]: KeyError: 'no such file': the traceback is"},
        Mistake{"DatasetRaisesInAProcess", kModel, kLoss, "Broken()", ": train_data[", ", loader_threads=1"}),
    [](const auto& info) { return info.param.name; });

TEST_P(PythonMistake, IsToldInOneLineThatNamesIt) {
  const Mistake& mistake = GetParam();
  const std::string train =
      script("train.py", str(R"(
import numpy, signal, sys, torch, rekindle
from torch.nn import functional
def interrupt(): raise KeyboardInterrupt
def with_gradients(samples):
    values, labels = torch.utils.data.default_collate(samples)
    return values * torch.ones(4, requires_grad=True), labels
class Streaming(torch.utils.data.IterableDataset):
    def __len__(self): return 64
    def __iter__(self): return iter([(torch.ones(4), 1)] * 64)
class Drawing(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index):
        return torch.from_numpy(numpy.random.default_rng().normal(size=4)).float(), 1
class Keeping(Drawing):
    rng = numpy.random.default_rng(0)
    def __getitem__(self, index):
        return torch.from_numpy(self.rng.normal(size=4)).float(), 1
class Broken(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): raise KeyError("no such file")
class Endless(Broken):
    def __len__(self): return 1 << 32
class Leaving(Broken):
    def __getitem__(self, index): raise SystemExit(3)
class Late(torch.optim.SGD):
    def step(self, closure=None):
        state = self.state[self.param_groups[0]["params"][0]]
        state["steps"] = state.get("steps", 0) + 1
        if state["steps"] > 6:
            state["late"] = torch.ones(3)
        super().step()
class Huge(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("one", torch.zeros(1).expand(1 << 45))
class Auxiliary(torch.nn.Linear):
    def __init__(self): super().__init__(4, 3)
    def forward(self, values):
        outputs = super().forward(values)
        return (outputs, outputs) if self.training else outputs
class Counting(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("calls", torch.zeros(()), persistent=False)
    def forward(self, values):
        self.calls += 1
        return super().forward(values)
def loss(model, batch):
    return )",
                             mistake.loss, R"(
rekindle.run(model=lambda: )",
                             mistake.model, ", loss=loss, train_data=lambda: ", mistake.data,
                             ", batch_size=16, micro_batches=1, steps=20", mistake.options, ")\n"));
  const Outcome outcome = run({"local", "--run-dir", scratch_ / "run", train});
  EXPECT_NE(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(times_in(outcome.out + outcome.err, mistake.message), mistake.times)
      << outcome.out << outcome.err;
}

// A script in which something happens at the samples from 48 on: in the last step of the first epoch.
std::string at_sample_48(const std::string& what) {
  return str(R"(
import os, sys, time, torch, rekindle
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return torch.ones(4), index
def loss(model, batch):
    values, indices = batch
    if bool((indices == 48).any()):
        )",
             what, R"(
    return (model(values) ** 2).mean()
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=loss, train_data=Samples, batch_size=16, micro_batches=2,
             epochs=2, checkpoint_interval="0s", hang_after="2s")
)");
}

TEST_F(Python, CrashInMidRun_GivenUpWithSamplesAndTraceback) {
  const fs::path dir = scratch_ / "run";
  for (const auto& [what, words] : {std::pair("raise ValueError('odd')", "ValueError: odd"),
                                    std::pair("os.kill(os.getpid(), 11)", "it was killed by signal 11")}) {
    fs::remove_all(dir);
    const Outcome outcome = run({"local", "--run-dir", dir, script("train.py", at_sample_48(what))});
    EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
    EXPECT_EQ(times_in(outcome.err, "trainers crash again and again at step "), 1U) << outcome.err;
    EXPECT_EQ(times_in(outcome.err, words), 1U) << outcome.err;
    EXPECT_EQ(times_in(outcome.err, "its samples are"), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("48"), std::string::npos) << outcome.err;
    std::string logs;
    for (const auto& entry : fs::directory_iterator(dir / "logs"))
      logs += read_text(entry.path()).value_or("");
    EXPECT_EQ(times_in(logs, "    raise ValueError('odd')") > 0, times_in(what, "raise") > 0) << logs;
  }
}

TEST_F(Python, HangInMidRun_GivenUpWithSamples) {
  const Outcome outcome =
      run({"local", "--run-dir", scratch_ / "run", script("train.py", at_sample_48("time.sleep(1000)"))});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "trainers hang again and again at step "), 1U) << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "its samples are"), 1U) << outcome.err;
  EXPECT_GE(times_in(outcome.out, "it hangs (computing)"), 5U) << outcome.out;
}

// The forked process leaves the script as if it were a trainer.
TEST_F(Python, ScriptThatForks_OneProcessTrains) {
  std::vector<std::string> digests;
  for (const char* what : {"pass", "os.fork()", "os.fork() or sys.exit()"}) {
    const fs::path dir = scratch_ / str("run-", digests.size());
    const Outcome outcome = run({"local", "--run-dir", dir, script("train.py", at_sample_48(what))});
    EXPECT_EQ(outcome.exit_code, 0) << what << outcome.out << outcome.err;
    EXPECT_EQ(outcome.out.find("was lost"), std::string::npos) << outcome.out;
    digests.push_back(digest_of(dir));
  }
  EXPECT_EQ(digests[1], digests[0]);
  EXPECT_EQ(digests[2], digests[0]);
}

// As scripts under Hydra, or with an `except` around everything. What comes after run() would go on in
// trainers.
TEST_F(Python, ErrorOfARunThatTheScriptCatches_IsToldAndNothingAfterTheRunIsExecuted) {
  struct Case {
    const char* arguments;
    int exit_code;
    const char* message;
  };
  for (const Case& of : {Case{"train_data=data, optimizer=3", 64, "optimizer is int: use rekindle.SGD"},
                         Case{"train_data=iter([1])", 78, "which has no __getitem__ and __len__"},
                         Case{"train_data=lambda: data[here:]", 78, "train_data has 63 samples here"}}) {
    const std::string train = script("train.py", str(R"(
import sys, torch, rekindle
data, here = [torch.ones(4)] * 64, "--describe" not in sys.orig_argv
try:
    rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: (model(x) ** 2).mean(), batch_size=16,
                 steps=4, )",
                                                     of.arguments, R"()
except BaseException:
    open(sys.argv[1], "w")
)"));
    const Outcome outcome = run({"local", "--run-dir", scratch_ / "run", train, scratch_ / "after"});
    EXPECT_EQ(outcome.exit_code, of.exit_code) << outcome.out << outcome.err;
    EXPECT_GE(times_in(outcome.out + outcome.err, of.message), 1U) << outcome.out << outcome.err;
    EXPECT_FALSE(fs::exists(scratch_ / "after")) << of.message;
  }
}

TEST_F(Python, ScriptWithoutRun_64Or78AndALine) {
  const Outcome outcome =
      run({"local", "--run-dir", scratch_ / "run", script("empty.py", "print('hello')\n")});
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_EQ(times_in(outcome.err, "ended without a call of rekindle.run()"), 1U) << outcome.err;
  const Outcome none = run({"local", "--run-dir", scratch_ / "run", scratch_ / "none.py"});
  EXPECT_EQ(none.exit_code, 64);
  EXPECT_EQ(times_in(none.err, "there is no script"), 1U) << none.err;
}

TEST_F(Python, SecondRunInAScript_ALineThatSaysSo) {
  const std::string call =
      str("rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: model(x).sum(), "
          "train_data=[torch.ones(4)] * 16, batch_size=16, micro_batches=1, steps=2, run_dir='",
          (scratch_ / "run").string(), "')\n");
  const Outcome outcome = python({script("twice.py", "import torch, rekindle\n" + call + call)});
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_EQ(times_in(outcome.err,
                     "rekindle: the script calls run() a second time: start the script once for each run\n"),
            1U)
      << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "Traceback"), 0U) << outcome.err;
}

// Each of their processes would begin the same run.
TEST_F(Python, ScriptThatALauncherStarts_ALineThatSaysSo) {
  Arguments launched = python_with({script("once.py", R"(
import torch, rekindle
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: model(x).sum(),
             train_data=[torch.ones(4)] * 16, steps=1)
)")});
  launched.insert(launched.begin() + 1, {"WORLD_SIZE=4", "RANK=1"});
  Program program(launched);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_NE(
      outcome.err.find("torchrun has started this script 4 times (WORLD_SIZE): start it once, and rekindle "
                       "starts the trainers: rekindle local --trainers-per-worker N once.py"),
      std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
