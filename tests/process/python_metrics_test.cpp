// Metrics that a loss returns beside itself (docs/python.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

using testing::HasSubstr;

// Its metrics are known: sample i has the value i. `high` is not counted in each micro-batch, nor is it in
// tests.
constexpr const char* kScript = R"(import sys, torch, rekindle
class Numbers(torch.utils.data.Dataset):
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, index):
        if index >= self.count: raise IndexError
        return torch.full((4,), index / 64), index
training = [-1, 1, 1, 1]  # the trainer computes the first micro-batch twice
def loss(model, batch):
    values, indices = batch
    output = model(values)
    high = indices[indices >= 60]
    found = {"index": (indices.sum(), len(indices)), "high": (high.sum().double(), torch.tensor(len(high))),
             "output": (output.sum(), output.numel())}
    if sys.argv[1] == "tested" and model.training: found["of training"] = (1, 2)
    if sys.argv[1] == "late" and training.pop() < 0: found["late"] = (1, 1)
    if sys.argv[1] == "taken": found["lr"] = (1, 1)
    return (output ** 2).mean(), found
def metrics(model, batch):
    return {"index" if sys.argv[1] == "twice" else "half": (len(batch[1]) / 2, len(batch[1]))}
tested = dict(test_data=Numbers(32), metrics=metrics)
rekindle.run(model=torch.nn.Linear(4, 3), loss=loss, train_data=Numbers(64), batch_size=64, micro_batches=4, epochs=2,
             **({} if sys.argv[1] == "untested" else tested))
)";

class PythonMetrics : public Python {
 protected:
  Outcome trained(const std::string& which, const Arguments& options = {}) const {
    const std::string file = script("train.py", kScript);
    return run(Arguments{"local", "--run-dir", scratch_ / which} + options + Arguments{file, which});
  }
  std::vector<nlohmann::json> lines_of(const std::string& which) const {
    std::ifstream file(scratch_ / which / "metrics.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

TEST_F(PythonMetrics, OfTheLoss_InTheLinesOfStepsAndOfEvaluations) {
  const Outcome outcome = trained("tested", {"--workers", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto lines = lines_of("tested");
  ASSERT_EQ(lines.size(), 4U);
  for (const std::size_t step : {0U, 2U}) {
    EXPECT_EQ(lines[step].value("index", -1.0), 31.5) << lines[step];
    EXPECT_EQ(lines[step].value("high", -1.0), 61.5) << lines[step];
    EXPECT_TRUE(lines[step].contains("output")) << lines[step];
    EXPECT_EQ(lines[step].value("of training", -1.0), 0.5) << lines[step];
    EXPECT_FALSE(lines[step].contains("half")) << lines[step];
  }
  for (const std::size_t evaluation : {1U, 3U}) {
    EXPECT_EQ(lines[evaluation].value("test_index", -1.0), 15.5) << lines[evaluation];
    EXPECT_EQ(lines[evaluation].value("test_half", -1.0), 0.5) << lines[evaluation];
    EXPECT_FALSE(lines[evaluation].contains("test_high")) << lines[evaluation];
  }
  const Outcome evaluated = run({"evaluate", scratch_ / "tested", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("15.5"));
}

TEST_F(PythonMetrics, OfTheLossWithoutTestData_InTheLinesOfSteps) {
  const Outcome outcome = trained("untested");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto lines = lines_of("untested");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].value("index", -1.0), 31.5) << lines[1];
}

TEST_F(PythonMetrics, NameThatComesFromLossAndMetrics_Refused) {
  const Outcome outcome = trained("twice");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_EQ(
      times_in(outcome.err, "metric index comes from loss and from metrics: leave it out of one of them"), 1U)
      << outcome.err;
}

TEST_F(PythonMetrics, NameThatNotEachMicroBatchHasOrThatIsTaken_ToldInALine) {
  for (const auto& [which, message] :
       {std::pair{"late",
                  "there is a metric 'late' that the first micro-batch did not have (its samples are"},
        std::pair{"taken",
                  "the loss returned a metric 'lr', which the lines of steps keep for another number"}}) {
    const Outcome outcome = trained(which);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

// As one that computes on a GPU alone, where `submit` is typed on a machine without one.
TEST_F(PythonMetrics, LossThatTheCommandCannotCompute_BestMetricIsComparedInTheTrainer) {
  const std::string file = script("train.py", R"(
import sys, torch, rekindle
def loss(model, batch):
    if "--describe" in sys.orig_argv: raise RuntimeError("there is no GPU here")
    return (model(batch) ** 2).mean(), {"f1": (1, 2)}
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=loss, train_data=[torch.ones(4)] * 16, batch_size=16,
             test_data=[torch.ones(4)] * 4, micro_batches=1, steps=2, keep_best=True, best_metric=sys.argv[1])
)");
  const auto trained_by = [&](const std::string& metric) {
    return run({"local", "--run-dir", scratch_ / metric, file, "min:" + metric});
  };
  const Outcome known = trained_by("f1");
  EXPECT_EQ(known.exit_code, 0) << known.out << known.err;
  EXPECT_EQ(lines_of("f1").back().value("test_f1", -1.0), 0.5);
  const Outcome unknown = trained_by("f2");
  EXPECT_NE(unknown.exit_code, 0) << unknown.out;
  EXPECT_THAT(unknown.err, HasSubstr("best_metric is 'f2', which neither loss nor metrics return"));
}

// In place of what Python says of its conversion.
TEST_F(PythonMetrics, PartThatIsNoNumber_ToldInALine) {
  const Outcome outcome = python({script("sums.py", R"(
import numpy, torch
from rekindle import RekindleError
from rekindle._metrics import sums_of
print(sums_of({"taken": (torch.ones(1, 1), numpy.int64(2)), "numpy": (numpy.float32(1), True)}))
for part in torch.ones(3, 3), numpy.ones(2), None, [1.0], "many":
    try:
        sums_of({"matrix": (part, 4)})
    except RekindleError as error:
        print(error.what if part is not None else error)
)")});
  EXPECT_EQ(
      outcome.out,
      "{'taken': (1.0, 2), 'numpy': (1.0, 1)}\n"
      "metric matrix has a part that is of shape [3, 3]\n"
      "metric matrix has a part that is of shape [2]\n"
      "metric matrix has a part that is NoneType: return one number each, (sum, count), in at most 15 pairs: "
      "the sums of a matrix have a name each\n"
      "metric matrix has a part that is list\n"
      "metric matrix has a part that is str\n")
      << outcome.err;
}

// squeeze() without a dimension takes that of the samples away, too. Of 33 samples in batches of 8, one is
// left.
TEST_F(PythonMetrics, LastTestBatchOfOneSample_IsTriedBeforeTheRun) {
  const std::string file = script("train.py", R"(
import sys, torch, rekindle
def loss(model, batch):
    outputs = model(batch[0])
    outputs = outputs.squeeze() if sys.argv[1] == "loss" else outputs.squeeze(1)
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs, batch[1])
def metrics(model, batch):
    outputs = model(batch[0])
    outputs = outputs.squeeze() if sys.argv[1] == "metrics" else outputs.squeeze(1)
    return {"right": ((outputs > 0).sum(), len(outputs))}
rekindle.run(model=lambda: torch.nn.Linear(4, 1), loss=loss, metrics=metrics, train_data=[(torch.ones(4), 1.0)] * 32,
             test_data=[(torch.ones(4), 1.0)] * 33, batch_size=16, micro_batches=2, steps=2)
)");
  const auto trained_by = [&](const std::string& which, const Arguments& options = {}) {
    return run(Arguments{"local", "--run-dir", scratch_ / which} + options + Arguments{file, which});
  };
  for (const auto& [which, what] :
       {std::pair("loss", "the loss fails"), std::pair("metrics", "metrics fail")}) {
    const Outcome outcome = trained_by(which);
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err,
                HasSubstr(str(what, " for a batch of 1 sample, as the last one of test_data: ")));
  }
  EXPECT_EQ(trained_by("neither").exit_code, 0);
  EXPECT_EQ(trained_by("loss", {"--batch-size", "11", "--micro-batches", "1"}).exit_code, 0);
}

// The line that says what to do comes before the traceback.
TEST_F(PythonMetrics, MetricsThatNeedAGpu_SaysWhatToDo) {
  const std::string file = script("train.py", R"(
import torch, rekindle
class Net(torch.nn.Linear):
    def forward(self, values): raise RuntimeError("there is no GPU here")
rekindle.run(model=lambda: Net(4, 3), loss=lambda model, values: model(values).mean(), train_data=[torch.ones(4)] * 16,
             test_data=[torch.ones(4)] * 4, metrics=lambda model, values: {"sum": (model(values).sum(), 1)}, steps=1)
)");
  const Outcome outcome = run({"local", "--run-dir", scratch_ / "run", file});
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("RuntimeError: there is no GPU here"));
  if (python({"-c", "import sys, torch; sys.exit(torch.cuda.is_available())"}).exit_code == 0) {
    EXPECT_EQ(times_in(outcome.err, "if the model needs a GPU, return them from the loss, or give this"), 1U)
        << outcome.err;
  }
}

}  // namespace
}  // namespace rekindle::process_test
