// Scripts (docs/python.md) whose optimizer fails, that trainers join or leave in mid-pass, or that use HDF5
// themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/files.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

// The optimizer is a simple LAMB, which makes new tensors in each step.
TEST_F(Python, OptimizerFailsInOneTrainerAndAnotherOneJoins_SameDigest) {
  const fs::path fails = scratch_ / "fails", dir = scratch_ / "run";
  const Arguments arguments = {"lamb=" + fails.string(), "clip_norm=0.5", "steps=300"};
  const std::string expected = digest("calm", 1, "shm", 0, arguments);
  ASSERT_EQ(expected.size(), 33U) << expected;
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 0, everything(), arguments));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 3 || !program.running(); }));
  std::ofstream(fails).put('x');
  ASSERT_TRUE(eventually([&] {
    return program.printed().find("with 2 trainers, 1 of them new") != std::string::npos ||
           !program.running();
  }));
  EXPECT_FALSE(fs::exists(fails));
  Program helper({rekindle(), "join", dir});
  ASSERT_TRUE(eventually([&] { return trainers_now(dir) == 3 || !program.running(); }));
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(helper.wait().exit_code, 0);
  EXPECT_EQ(times_in(outcome.out, "resumes from step"), 0U) << "the other trainer kept the state\n"
                                                            << outcome.out;
  EXPECT_NE(outcome.out.find("RuntimeError: this trainer's update fails"), std::string::npos) << outcome.out;
  EXPECT_EQ(digest_of(dir), expected);
}

// Each module and each gradient takes 50 ms and writes a line into a file of its process.
constexpr const char* kSlow = R"(
import os, sys, time, torch, rekindle
log = open(f"{sys.argv[1]}.{os.getpid()}", "a", buffering=1)
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, values, number):
        context.number = number
        time.sleep(0.05)
        log.write(f"f{number}\n")
        return values.clone()
    @staticmethod
    def backward(context, gradient):
        time.sleep(0.05)
        log.write(f"b{context.number}\n")
        return gradient, None
class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.linear = number, torch.nn.Linear(4, 4)
    def forward(self, values):
        return Slow.apply(self.linear(values), self.number)
rekindle.run(model=lambda: torch.nn.Sequential(*[Layer(i) for i in range(40)]),
             loss=lambda model, values: (model(values) ** 2).mean(), train_data=[torch.ones(4)] * 16,
             batch_size=8, micro_batches=2, steps=4, loader_threads=0)
)";

class PythonPass : public Python, public testing::WithParamInterface<char> {};
INSTANTIATE_TEST_SUITE_P(Halves, PythonPass, testing::Values('f', 'b'),
                         [](const auto& info) { return info.param == 'f' ? "Forward" : "Backward"; });

TEST_P(PythonPass, AnotherTrainerDies_ThePassIsLeftBeforeItsEnd) {
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} +
                  local(dir, 2, "shm", 0, script("slow.py", kSlow), {(scratch_ / "lines").string()}));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 1 || !program.running(); }));
  std::vector<pid_t> trainers;  // status.json is written once a second
  ASSERT_TRUE(eventually([&] { return (trainers = trainers_of(dir)).size() == 2 || !program.running(); }));
  ASSERT_EQ(trainers.size(), 2U);
  const auto lines = [&] {
    std::ifstream file(str((scratch_ / "lines").string(), ".", trainers[0]));
    std::vector<std::string> read;
    for (std::string line; std::getline(file, line);) read.push_back(line);
    return read;
  };
  // In the first half of this half.
  const auto in_its_middle = [&] {
    const std::vector<std::string> read = lines();
    const int number = read.empty() ? -1 : std::atoi(read.back().c_str() + 1);
    return !read.empty() && read.back().front() == GetParam() && number > 10 && number < 20;
  };
  ASSERT_TRUE(eventually([&] { return in_its_middle() || !program.running(); }));
  const std::size_t before = lines().size();
  ::kill(trainers[1], SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const std::vector<std::string> after = lines();
  const auto next = std::find(after.begin() + static_cast<std::ptrdiff_t>(before), after.end(), "f0");
  ASSERT_NE(next, after.end());
  EXPECT_NE(*(next - 1), "b0") << "the pass went on to its end";
}

// From the tenth pass on, it waits while the file is there. The parameters are frozen at first, so no
// gradient looks for an abort.
constexpr const char* kSwallows = R"(
import os, sys, time, torch, rekindle
class Swallowing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.passes = torch.nn.Linear(4, 4).requires_grad_(False), 0
    def forward(self, values):
        self.passes += 1
        try:
            self.block.requires_grad_(True)
            while self.passes > 10 and os.path.exists(sys.argv[1]):
                self.block(values)
                time.sleep(0.01)
            return self.block(values)
        except:
            os.rename(sys.argv[1], sys.argv[1] + "-was-there")
            return values + 0 * self.block.weight.sum()
rekindle.run(model=Swallowing, loss=lambda model, values: (model(values) ** 2).mean(),
             train_data=[torch.full((4,), float(i)) for i in range(16)], optimizer=rekindle.SGD(lr=0.001),
             batch_size=8, micro_batches=2, steps=30, loader_threads=0)
)";

TEST_F(Python, ScriptThatCatchesTheAbort_TheMicroBatchIsComputedAgain) {
  const fs::path dir = scratch_ / "run", hold = scratch_ / "hold";
  const std::string text = script("swallows.py", kSwallows);
  std::ofstream(hold).put('x');
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 0, text, {hold}));
  std::vector<pid_t> trainers;
  ASSERT_TRUE(eventually([&] { return (trainers = trainers_of(dir)).size() == 2 || !program.running(); }));
  ASSERT_EQ(trainers.size(), 2U);
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 5 || !program.running(); }));
  ::kill(trainers[1], SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(fs::exists(hold.string() + "-was-there"));
  EXPECT_EQ(run(local(scratch_ / "calm", 1, "shm", 0, text, {hold})).exit_code, 0);
  EXPECT_EQ(digest_of(dir), digest_of(scratch_ / "calm"));
}

// A spare begins 10 s after the last trainer, or after the end of the spare before it.
TEST_F(Python, SpareInterpreterIsKilled_AnotherOneComesAndNothingIsLost) {
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} + local(dir, 1, "shm", 0, everything(), {"steps=1000000"}));
  ASSERT_TRUE(eventually(
      [&] { return (!spares_of(dir).empty() && !trainers_of(dir).empty()) || !program.running(); }));
  ASSERT_TRUE(program.running()) << program.wait().err;
  const auto trainers = trainers_of(dir);
  const pid_t first = spares_of(dir).front();
  ::kill(first, SIGKILL);
  const auto another = [&] {
    const auto now = spares_of(dir);
    return !now.empty() && std::ranges::find(now, first) == now.end();
  };
  EXPECT_TRUE(eventually([&] { return another() || !program.running(); }));
  const auto reached = reached_step(dir);
  EXPECT_TRUE(eventually([&] { return reached_step(dir) > reached + 5 || !program.running(); }));
  EXPECT_EQ(trainers_of(dir), trainers);
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "was lost") + times_in(outcome.out, "generation t1.g2"), 0U) << outcome.out;
}

// Those that run the script, and the processes that it started itself. The seed is not 1, so the script is
// described twice, the second time by the same process.
TEST_F(Python, ScriptThatStartsProcesses_NoneIsLeft) {
  const std::string text = script("train.py", R"(
import multiprocessing, time, numpy, torch, rekindle
context = multiprocessing.get_context("fork")
shared = context.Manager().dict()
context.Process(target=time.sleep, args=(100000,), daemon=True).start()
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, values: (model(values) ** 2).mean(),
             train_data=[torch.ones(4)] * 16, batch_size=numpy.int64(16), micro_batches=1, steps=2,
             clip_norm=numpy.float64(1), seed=7)
)");
  const Outcome outcome = run(local(scratch_ / "run", 2, "shm", 1, text));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(eventually([&] { return processes_with(scratch_.path()).empty(); }, std::chrono::seconds(20)));
}

// HDF5 of h5py and that of librekindle.so are two libraries in one process, whichever is loaded first.
TEST_F(Python, ScriptsThatUseH5py_SameDigestAsWithout) {
  const std::string file = scratch_ / "data.h5";
  const Outcome made =
      python({"-c", str("import h5py, numpy\nwith h5py.File('", file,
                        "', 'w') as f: f['x'] = numpy.arange(256, dtype='float32').reshape(64, 4) % 7")});
  if (made.exit_code != 0) REKINDLE_SKIP(Needs::kPython, "needs a python3 with torch and h5py");
  const std::string text = script("train.py", R"(
import sys, torch, rekindle
class Samples:
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if sys.argv[1] == "none":
            return torch.tensor([float((4 * index + i) % 7) for i in range(4)])
        import h5py
        with h5py.File(sys.argv[1]) as file:
            return torch.from_numpy(file["x"][index])
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, x: (model(x) ** 2).mean(), train_data=Samples(),
             batch_size=16, micro_batches=4, steps=8, checkpoint_interval="0s")
)");
  const auto digest = [&](const std::string& name, int loaders, const std::string& argument) {
    const Outcome outcome = run(local(scratch_ / name, 2, "shm", loaders, text, {argument}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return digest_of(scratch_ / name);
  };
  const std::string expected = digest("without", 0, "none");
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(digest("after", 0, file), expected);
  EXPECT_EQ(digest("in-loaders", 1, file), expected);
  script("sitecustomize.py", "import h5py\n");  // before anything else
  ::setenv("PYTHONPATH", scratch_.path().c_str(), 1);
  EXPECT_EQ(digest("before", 0, file), expected);
  ::unsetenv("PYTHONPATH");
}

}  // namespace
}  // namespace rekindle::process_test
