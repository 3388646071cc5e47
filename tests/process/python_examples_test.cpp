// The scripts that the documents show (examples/python, docs/python.md), made short.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

struct Example {
  const char* script;
  Arguments own;   // arguments of the script; DATA: the folder of `made`
  Arguments made;  // of rekindle make-data, whose last one is a folder or file in DATA
  bool needs_torchvision = false;
  int steps = 2;
};
void PrintTo(const Example& example, std::ostream* out) { *out << example.script; }

class PythonExample : public Python, public testing::WithParamInterface<Example> {};

INSTANTIATE_TEST_SUITE_P(
    All, PythonExample,
    testing::Values(Example{"mnist", {"--data", "DATA"}, {"mnist", "MNIST/raw"}, true},
                    Example{"resnet18", {"DATA", "--image-size", "64"}, {"image-folder", ""}, true},
                    Example{"gpt", {"DATA/text"}, {"text", "text"}, false, 22},
                    Example{"own_function", {}, {}}, Example{"outputs", {}, {}}),
    [](const auto& info) { return std::string(info.param.script); });

// DATA stands for the folder.
Arguments in_folder(const Arguments& words, const std::string& folder) {
  Arguments all = words;
  for (std::string& word : all) {
    if (word.starts_with("DATA")) word.replace(0, 4, folder);
  }
  return all;
}

TEST_P(PythonExample, MakesItsFirstSteps) {
  const Example& example = GetParam();
  if (example.needs_torchvision &&
      Program({"/usr/bin/env", python_, "-c", "import torchvision"}).wait().exit_code != 0)
    REKINDLE_SKIP(Needs::kPython, "needs torchvision");
  const fs::path data = scratch_ / "data";
  fs::create_directories(data);
  if (!example.made.empty()) {
    fs::create_directories((data / example.made[1]).parent_path());
    const Outcome made = run({"make-data", example.made[0], data / example.made[1], "--samples", "64"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  // What make-data writes for tests of TinyImageNet is one folder; torchvision wants one for each class.
  if (fs::exists(data / "val/images")) {
    fs::remove_all(data / "val");
    fs::copy(data / "train", data / "val", fs::copy_options::recursive);
  }
  const fs::path dir = scratch_ / "run";
  const std::string script = fs::path(REKINDLE_SOURCE) / "examples/python" / str(example.script, ".py");
  const Outcome outcome = run(Arguments{"local", "--run-dir", dir, "--steps", str(example.steps),
                                        "--batch-size", "16", "--micro-batches", "2", script} +
                              in_folder(example.own, data));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, str("finished: ", example.steps, " steps")), 1U) << outcome.out;
}

TEST_F(Python, FirstScriptOfTheDocument_Learns) {
  const std::string document = read_text(fs::path(REKINDLE_SOURCE) / "docs/python.md").value();
  const std::string begin = "<!-- test: first script -->\n```python\n";
  const auto at = document.find(begin);
  ASSERT_NE(at, std::string::npos);
  const std::string text =
      document.substr(at + begin.size(), document.find("```", at + begin.size()) - at - begin.size());
  const std::string train = script("train.py", text);
  const Outcome outcome = python(
      {"-c", str("import os, runpy, sys; os.chdir('", scratch_.path().string(),
                 "'); sys.exit(os.spawnv(os.P_WAIT, sys.executable, [sys.executable, '", train, "']))")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::string words = "the last loss is ";
  ASSERT_EQ(times_in(outcome.out, words), 1U) << outcome.out;
  EXPECT_LT(std::stod(outcome.out.substr(outcome.out.find(words) + words.size())), 0.5) << outcome.out;
}

// As in a loop, whatever the number of micro-batches.
TEST_F(Python, TeacherOfTheDocument_FollowsOnceAStep) {
  const std::string document = str(REKINDLE_SOURCE, "/docs/python.md");
  const std::string lines =
      str(R"(
import copy, sys, torch, rekindle
from torch import nn
from torch.nn import functional
exec(open(")",
          document, R"(").read().split("<!-- test: teacher -->\n```python\n")[1].split("```")[0])
def model():
    pair = Pair(nn.Linear(4, 3))
    with torch.no_grad():
        for tensor in pair.state_dict().values():
            tensor.copy_(torch.linspace(-1, 1, tensor.numel()).view(tensor.shape))
    return pair
def distance(pair, batch):
    return loss(pair, batch) + (pair.student(batch) ** 2).mean()
)");
  const std::string train = script("train.py", str(lines, R"(
rekindle.run(model=model, loss=distance, train_data=[torch.full((4,), 0.3)] * 64, optimizer=rekindle.SGD(lr=0.1),
             batch_size=16, micro_batches=4, steps=6)
)"));
  const std::string compare = script("compare.py", str(lines, R"(
trained, pair = rekindle.load(sys.argv[1], model()), model()
for _ in range(6):
    distance(pair, torch.full((16, 4), 0.3)).backward()
    with torch.no_grad():
        for each in pair.parameters():
            each.sub_(0.1 * each.grad)
            each.grad = None
same = [torch.allclose(trained.state_dict()[name], each, rtol=0, atol=1e-6) for name, each in pair.state_dict().items()]
print(all(same), len(list(trained.teacher.parameters())), (pair.teacher.weight - model().teacher.weight).abs().max() > 1e-4)
)"));
  for (const int workers : {1, 2}) {
    const fs::path dir = scratch_ / str(workers);
    const Outcome outcome = run(local(dir, workers, "shm", 0, train));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(digest_of(dir), digest_of(scratch_ / "1"));
  }
  const Outcome compared = python({compare, scratch_ / "1"});
  EXPECT_EQ(compared.out, "True 0 tensor(True)\n") << compared.err;
}

TEST_F(Python, ImportOfThePackage_ImportsNeitherTorchNorNumpy) {
  const Outcome outcome =
      python({"-c", "import rekindle, sys; print({'torch', 'numpy'} & set(sys.modules) or 'neither')"});
  EXPECT_EQ(outcome.out, "neither\n") << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
