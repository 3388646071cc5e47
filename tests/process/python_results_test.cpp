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

}  // namespace
}  // namespace rekindle::process_test
