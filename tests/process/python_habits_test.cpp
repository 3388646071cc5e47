// What ordinary scripts do, and plain PyTorch allows.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonHabits : public Python {
 protected:
  // A script with `prelude` before its call of run(), which has `arguments` besides.
  std::string with(const std::string& prelude, const std::string& arguments) const {
    return script("train.py", str(R"(import os, numpy, torch, rekindle
def loss(model, batch): return (model(batch[0]) ** 2).mean()
)",
                                  prelude, R"(
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=loss, batch_size=16, micro_batches=2, )",
                                  arguments, ")\n"));
  }
  Outcome trained(const std::string& script, const Arguments& options = {"--workers", "2"}) const {
    return run(Arguments{"local", "--run-dir", scratch_ / "run"} + options + Arguments{script});
  }
};

constexpr const char* kData = "train_data=[(torch.ones(4), 1)] * 64, epochs=2";

// Its child imports the script again, and would begin a run of its own, whose script does the same.
TEST_F(PythonHabits, ProcessOfMultiprocessing_DoesNotBeginAnotherRun) {
  const Outcome outcome = trained(with(R"(
import multiprocessing
def make():
    child = multiprocessing.get_context("spawn").Process(target=print, args=("from the child",))
    child.start()
    child.join()
    if child.exitcode: raise ValueError("the child failed")
    return [(torch.ones(4), 1)] * 64
)",
                                       "train_data=make, epochs=2"));
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "run() is called in a process of multiprocessing"), 1U) << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "without mp.spawn: rekindle starts the trainers"), 1U) << outcome.err;
}

// As for its model: the importing program would be trained in its place.
TEST_F(PythonHabits, ScriptThatIsImported_ItsRunDoesNotBegin) {
  with("", str(kData, ", run_dir='", (scratch_ / "run").string(), "'"));
  const Outcome outcome = python({script("predict.py", "import rekindle\nfrom train import loss\n")});
  EXPECT_EQ(outcome.exit_code, 64) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err,
                     "rekindle: run() is called while train is imported: put it under if __name__ == "
                     "\"__main__\":, or into a "
                     "function\n"),
            1U)
      << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
}

// Processes that are forked share the position in an open file.
TEST_F(PythonHabits, FileThatTheDataSetKeepsOpen_EachProcessHasItsOwnPlaceInIt) {
  const Outcome outcome = trained(with(R"(
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "records")
SIZE, COUNT = 64, 4096
if not os.path.exists(path):
    with open(path + ".new", "wb") as new:
        for index in range(COUNT): new.write(index.to_bytes(4, "little") * (SIZE // 4))
    os.rename(path + ".new", path)
class Records(torch.utils.data.Dataset):
    def __init__(self): self.file = open(path, "rb", buffering=0)
    def __len__(self): return COUNT
    def __getitem__(self, index):
        self.file.seek(index * SIZE)
        os.sched_yield()
        record = self.file.read(SIZE)
        if int.from_bytes(record[:4], "little") != index: raise ValueError(f"another record than {index}")
        return torch.ones(4), index
)",
                                       "train_data=Records, epochs=2, loader_threads=3"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST_F(PythonHabits, DataSplitAtRandom_TheSameForTheCommandAndForTrainers) {
  const std::string split = with("chosen = numpy.random.rand(1000) < 0.8",
                                 "train_data=[(torch.ones(4), 1)] * int(chosen.sum()), steps=4, seed=7");
  EXPECT_EQ(trained(split).exit_code, 0);
  fs::remove_all(scratch_ / "run");
  const Outcome other = trained(split, {"--seed", "9"});
  EXPECT_EQ(other.exit_code, 0) << other.out << other.err;
}

TEST_F(PythonHabits, AnotherOptimizerAndScheduleOnTheCommandLine_WithDefaultsOfTheirOwn) {
  const std::string script = with(
      "",
      str(kData, ", optimizer=rekindle.SGD(lr=0.5, momentum=0.8), schedule=rekindle.MultiStep([1], 0.5)"));
  const Outcome outcome = trained(script, {"--optimizer", "adamw", "--schedule", "cosine"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::string config = read_text(scratch_ / "run/run.toml").value_or("");
  EXPECT_NE(config.find("lr = 0.001\n"), std::string::npos) << config;
  EXPECT_NE(config.find("optimizer = \"adamw\"\n"), std::string::npos) << config;
  fs::remove_all(scratch_ / "run");
  EXPECT_EQ(trained(script, {"--optimizer", "sgd"}).exit_code, 0);
  EXPECT_NE(read_text(scratch_ / "run/run.toml").value_or("").find("lr = 0.5\n"), std::string::npos);
}

// The two would be multiplied.
TEST_F(PythonHabits, ScheduleOnTheCommandLineAndAFunctionInTheCall_TheCommandLineWins) {
  const auto digest_with = [&](const std::string& arguments, const Arguments& options) {
    fs::remove_all(scratch_ / "run");
    const Outcome outcome =
        trained(with("", str(kData, ", optimizer=rekindle.SGD(lr=0.1)", arguments)), options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return digest_of(scratch_ / "run");
  };
  const std::string function = ", schedule=lambda step: 0.5 ** step";
  const std::string cosine = digest_with("", {"--schedule", "cosine"});
  EXPECT_EQ(digest_with(function, {"--schedule", "cosine"}), cosine);
  EXPECT_NE(digest_with(function, {}), digest_with("", {}));
}

// Of 60 samples in batches of 16, a loop with drop_last has 3 steps an epoch, and a run of 2 epochs has 8
// steps.
TEST_F(PythonHabits, ScheduleThatEndsBeforeTheRun_RefusedBeforeIt) {
  const std::string script = with("", R"(train_data=[(torch.ones(4), 1)] * 60, epochs=2,
             schedule=lambda step: [1.0, 0.9, 0.8, 0.7, 0.6, 0.5][step])");
  const Outcome outcome = trained(script);
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err,
                     "the schedule gives no factor for step 7, the last one of 8: IndexError: list index out "
                     "of range: E epochs are ceil(E * samples / batch_size) steps"),
            1U)
      << outcome.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
  for (const Arguments& options : {Arguments{"--epochs", "1"}, Arguments{"--steps", "6"},
                                   Arguments{"--batch-size", "32"}, Arguments{"--schedule", "cosine"}}) {
    fs::remove_all(scratch_ / "run");
    const Outcome shorter = trained(script, options);
    EXPECT_EQ(shorter.exit_code, 0) << options[0] << shorter.out << shorter.err;
  }
}

TEST_F(PythonHabits, ScheduleOfTheStepAndTheLength_KeepsTheLengthOfTheFirstStart) {
  const auto trained_with = [&](const char* schedule) {
    return with("", str(kData, ", optimizer=rekindle.SGD(lr=0.1), schedule=", schedule));
  };
  std::string script = trained_with("lambda step, steps: 2 - step / steps");
  EXPECT_EQ(trained(script).exit_code, 0);
  EXPECT_EQ(trained(script, {"--epochs", "3"}).exit_code, 0);
  const std::string longer = digest_of(scratch_ / "run");
  fs::remove_all(scratch_ / "run");
  script = trained_with("lambda step: 2 - step / 8");
  EXPECT_EQ(trained(script, {"--epochs", "3"}).exit_code, 0);
  EXPECT_EQ(digest_of(scratch_ / "run"), longer);
}

// A resume would begin with its first rate again. Some change it at once, others later.
TEST_F(PythonHabits, ScheduleWithAStateOfItsOwn_Refused) {
  const char* scheduler = R"(
scheduler = torch.optim.lr_scheduler.ExponentialLR(torch.optim.SGD([torch.zeros(1)], lr=1.0), 0.5)
def factor(step):
    scheduler.step()
    return scheduler.get_last_lr()[0]
)";
  const char* counter = R"(
calls = []
def factor(step):
    calls.append(step)
    return 1.0 if len(calls) < 5 else 0.5
)";
  const char* in_steps = R"(
scheduler = torch.optim.lr_scheduler.ExponentialLR(torch.optim.SGD([torch.zeros(1)], lr=1.0), 0.5)
def factor(step):
    if step > 0 and step % 2 == 0: scheduler.step()
    return scheduler.get_last_lr()[0]
)";
  for (const auto& [function, factors] :
       {std::pair(scheduler, "0.5 and then 0.25"), std::pair(counter, "1.0 and then 0.5"),
        std::pair(in_steps, "0.5 and then 0.25")}) {
    fs::remove_all(scratch_ / "run");
    const Outcome outcome = trained(with(function, str(kData, ", schedule=factor")), {"--workers", "1"});
    EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
    EXPECT_GE(times_in(outcome.out + outcome.err,
                       str("the schedule gives another factor for the same step, ", factors)),
              1U)
        << outcome.out << outcome.err;
  }
}

// The compiler is imported then, after the model was made.
TEST_F(PythonHabits, FunctionThatTheLossCompiles_EachShapeIsCompiledByItself) {
  const Outcome outcome = trained(with(R"(
compiled = []
def backend(graph, inputs):
    if any(isinstance(size, torch.SymInt) for value in inputs for size in getattr(value, "shape", [value])):
        raise RuntimeError("compiled for any shape")
    return graph.forward
def loss(model, batch):
    if not compiled:
        compiled.append(torch.compile(lambda values: (values ** 2).mean(), backend=backend))
    return compiled[0](model(batch[0][: 2 + int(batch[1].sum()) % 5]))
)",
                                       "train_data=[(torch.ones(4), i) for i in range(64)], epochs=2"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

// As in optimizers that are written by hand.
TEST_F(PythonHabits, OptimizerThatAssignsNewData_ItsValuesAreTaken) {
  const std::string script = with(R"(
class Plain(torch.optim.Optimizer):
    def __init__(self, parameters): super().__init__(parameters, {"lr": 0.125})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None: p.data = p.data - group["lr"] * p.grad
)",
                                  str(kData, ", optimizer=Plain"));
  const Outcome outcome = trained(script);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::string of_two = digest_of(scratch_ / "run");
  fs::remove_all(scratch_ / "run");
  ASSERT_EQ(trained(script, {"--workers", "1"}).exit_code, 0);
  EXPECT_EQ(digest_of(scratch_ / "run"), of_two);
}

// The end of a pool terminates its processes, in which SIGTERM is ignored, and waits for them.
TEST_F(PythonHabits, PoolOfMultiprocessing_Ends) {
  const Outcome outcome = trained(with(R"(
import multiprocessing
def make():
    for how in "fork", "spawn":
        with multiprocessing.get_context(how).Pool(4 if how == "fork" else 1) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
    return [(torch.ones(4), 1)] * 64
if __name__ != "__main__":  # in a process of "spawn"
    rekindle.run = lambda **_: None
)",
                                       "train_data=make, test_data=make, epochs=2"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const Outcome evaluated = run({"evaluate", scratch_ / "run"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.out << evaluated.err;
}

// As of mixup: an evaluation of mixed samples would mean nothing.
TEST_F(PythonHabits, CollateThatMixesSamples_TestSamplesHaveAnotherOne) {
  const Outcome outcome = trained(script("train.py", R"(
import torch, rekindle
def mixed(samples):
    assert len(samples) > 1
    return torch.stack(samples).roll(1, 0), True
def loss(model, batch):
    assert batch[1] == model.training
    return (model(batch[0]) ** 2).mean()
def metrics(model, batch):
    assert not batch[1]
    return {"samples": (float(len(batch[0])), len(batch[0]))}
class Lists:
    def __len__(self): return 9
    def __getitem__(self, index): return [torch.ones(4)]
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=loss, metrics=metrics, collate=mixed,
             test_collate=lambda samples: (torch.stack([sample.pop() for sample in samples]), False),
             train_data=[torch.ones(4)] * 64, test_data=Lists(), batch_size=16, micro_batches=2, epochs=2)
)"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const Outcome evaluated = run({"evaluate", scratch_ / "run"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.out << evaluated.err;
}

// As a farm of small runs in one job.
TEST_F(PythonHabits, EachTaskOfSrun_MayBeARunOfItsOwn) {
  const std::string script = with("", kData);
  const Arguments task{"/usr/bin/env", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1"};
  const Outcome refused = Program(task + python_with({script})).wait();
  EXPECT_EQ(refused.exit_code, 64) << refused.err;
  EXPECT_NE(refused.err.find("srun has started this script 4 times (SLURM_STEP_NUM_TASKS): start it once"),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("a run of its own: rekindle local --run-dir DIR train.py, with another DIR"),
            std::string::npos)
      << refused.err;
  const fs::path dir = scratch_ / "run";
  const Outcome own = Program(task + Arguments{rekindle(), "local", "--run-dir", dir, script}).wait();
  EXPECT_EQ(own.exit_code, 0) << own.out << own.err;
}

}  // namespace
}  // namespace rekindle::process_test
