// Scripts (docs/python.md) on a GPU's code without a GPU (--device twin): the same digest as on a CPU, with
// gradients through the host and by a stand-in for NCCL, whatever happens on the way. The model of the script
// has batch norm and a buffer that counts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.hpp"
#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonDevice : public Python {
 protected:
  void SetUp() override {
    Python::SetUp();
    ::setenv("REKINDLE_NCCL_LIBRARY", REKINDLE_NCCL_STAND_IN, 1);
  }
  void TearDown() override { ::unsetenv("REKINDLE_NCCL_LIBRARY"); }

  std::string on_cpu(const Arguments& arguments) const { return digest("cpu", 1, "shm", 0, arguments); }
  std::string on_twin(const std::string& name, int workers, const std::string& exchange, int loaders,
                      Arguments arguments) const {
    arguments.push_back("device='twin'");
    return digest(name, workers, exchange, loaders, arguments);
  }
};

TEST_F(PythonDevice, AnyNumberOfTrainers_SameDigestAsOnACpu) {
  const std::string expected = on_cpu({});
  ASSERT_EQ(expected.size(), 33U) << expected;
  EXPECT_EQ(on_twin("w1", 1, "auto", 0, {}), expected);
  EXPECT_EQ(on_twin("w2-shm", 2, "shm", 0, {}), expected);
  EXPECT_EQ(on_twin("w3-nccl", 3, "nccl", 1, {}), expected);
  EXPECT_EQ(on_twin("w3-tcp", 3, "tcp", 0, {}), expected);
}

// The line of the library names the driver's version; torch only says that there is no GPU.
TEST_F(PythonDevice, ADeviceThatCannotBeUsed_TheLineThatSaysWhy) {
  const std::string cases = fs::path(REKINDLE_SOURCE) / "tests/python/device.py";
  EXPECT_EQ(python({cases, "old_driver"}).out,
            "78 the NVIDIA driver is for CUDA 12.4, and this build needs 13.0: update the driver\n");
  const Outcome blind = python({cases, "torch_sees_none"});
  EXPECT_NE(blind.out.find("78 torch "), std::string::npos) << blind.out << blind.err;
  EXPECT_EQ(
      python({cases, "other_allocator"}).out,
      "78 torch's allocator of GPU memory cannot be watched: RuntimeError: cudaMallocAsync does not yet "
      "support attachOutOfMemoryObserver.: unset PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, or leave "
      "backend:cudaMallocAsync out of them\n");
  EXPECT_EQ(python({cases, "full"}).out,
            "use fewer programs and trainers on this GPU; a new run: more micro_batches, or a smaller "
            "batch_size\nTrue\n");
  EXPECT_EQ(
      python({cases, "full_in_an_evaluation"}).out,
      "True False\n78 A GPU has too little memory: the bits could be others: use fewer programs and trainers "
      "on this GPU; a new run: more micro_batches, or a smaller batch_size\n");
}

TEST_F(PythonDevice, OneGpuCannotBeOpened_TheOtherTrains) {
  const std::string mine = str("python-twin-", ::getpid(), "-");
  ::setenv("REKINDLE_TWIN_GPUS", str(mine, 0, ",!", mine, 1).c_str(), 1);
  const Outcome outcome = run(local(scratch_ / "run", 2, "auto", 0, everything(), {"device='twin'"}));
  ::unsetenv("REKINDLE_TWIN_GPUS");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err)
                .find("GPU 1 cannot be used: it is a broken twin; each other GPU here has a trainer"),
            std::string::npos)
      << outcome.out << outcome.err;
}

TEST_F(PythonDevice, RecurrentLayersWithDropoutBetweenThem_WithoutCudnn) {
  const std::string cases = fs::path(REKINDLE_SOURCE) / "tests/python/device.py";
  EXPECT_EQ(python({cases, "recurrent"}).out, "False True True True True\n");
}

// The script's torch sees a GPU, and the library cannot open it.
TEST_F(PythonDevice, AGpuForTorchAlone_TheDescriptionSaysWhyItCannotBeUsed) {
  const std::string described = script(
      "seen.py",
      str("import torch\ntorch.cuda.is_available = lambda: True\nexec(open('", everything(), "').read())\n"));
  const Outcome outcome = python({"-c", "from rekindle.trainer import main; main()", "--describe",
                                  scratch_.path().string(), described, "", "{}"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  ASSERT_TRUE(answer.contains("no_gpu")) << outcome.out;
  EXPECT_FALSE(answer.at("has_gpu").get<bool>());
  EXPECT_NE(answer.at("no_gpu").get<std::string>(), "");
}

TEST_F(PythonDevice, OptimizersOfRekindleAndOfTheScript_SameDigestAsOnACpu) {
  for (const Arguments& arguments :
       {Arguments{"optimizer=AdamW", "ema=0.9", "precision='bf16'"}, Arguments{"optimizer=own", "ema=0.9"},
        Arguments{"optimizer=counting"}}) {
    const std::string expected = on_cpu(arguments);
    ASSERT_EQ(expected.size(), 33U) << arguments[0];
    EXPECT_EQ(on_twin("w2", 2, "nccl", 0, arguments), expected) << arguments[0];
    EXPECT_EQ(on_twin("w3", 3, "shm", 0, arguments), expected) << arguments[0];
    for (const char* const name : {"cpu", "w2", "w3"}) fs::remove_all(scratch_ / name);
  }
}

// The trainer that takes the place of the killed one was a spare interpreter, or is a new one.
TEST_F(PythonDevice, AKillAJoinAStopAndAResume_SameDigestAsOnACpu) {
  for (const char* const optimizer : {"optimizer=AdamW", "optimizer=own"}) {
    const Arguments arguments = {optimizer, "steps=100", "ema=0.9"};
    const std::string expected = on_cpu(arguments);
    ASSERT_EQ(expected.size(), 33U) << expected;
    const fs::path dir = scratch_ / "faults";
    const Arguments twin = arguments + Arguments{"device='twin'"};
    Program program(Arguments{rekindle()} + local(dir, 2, "nccl", 0, everything(), twin));
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 2 || !program.running(); }));
    std::vector<pid_t> trainers;  // status.json is written once a second
    ASSERT_TRUE(eventually([&] { return (trainers = trainers_of(dir)).size() == 2 || !program.running(); }));
    ASSERT_EQ(trainers.size(), 2U) << program.printed();
    ::kill(trainers.back(), SIGKILL);
    Program helper({rekindle(), "join", dir});
    ASSERT_TRUE(eventually([&] { return trainers_now(dir) == 3 || !program.running(); }));
    program.signal(SIGUSR1);
    const Outcome stopped = program.wait();
    EXPECT_TRUE(stopped.exit_code == 75 || stopped.exit_code == 0) << stopped.out << stopped.err;
    helper.wait();
    const Outcome resumed = run(local(dir, 3, "shm", 0, everything(), twin));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
    EXPECT_EQ(digest_of(dir), expected) << optimizer;
    for (const char* const name : {"cpu", "faults"}) fs::remove_all(scratch_ / name);
  }
}

// torch keeps memory for later, and the library takes its own beside it: for the exchange, or for the share
// of a trainer that was lost.
TEST_F(PythonDevice, TheDeviceIsFull_TorchGivesItsCacheBack) {
  const fs::path emptied = scratch_ / "emptied";
  const std::string train =
      script("train.py", str(R"(
import torch, rekindle
def note():
    with open(")",
                             emptied.string(), R"(", "a") as file: file.write("emptied\n")
torch.cuda.empty_cache = note
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, batch: (model(batch[0]) ** 2).mean(),
             train_data=[(torch.ones(4), 1)] * 64, batch_size=16, micro_batches=2, steps=4, device="twin")
)"));
  const Outcome outcome = run(local(scratch_ / "run", 2, "nccl", 0, train));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto text = read_text(emptied);
  ASSERT_TRUE(text) << "nothing was given back";
  EXPECT_EQ(text->substr(0, 8), "emptied\n");
}

// No version counter of torch sees what goes through .data.
TEST_F(PythonDevice, AModelThatChangesAParameterThroughData_78WithItsName) {
  const std::string train = script("train.py", R"(
import torch, rekindle
class Decaying(torch.nn.Linear):
    def forward(self, values):
        self.bias.data.mul_(0.5)
        return super().forward(values)
rekindle.run(model=lambda: Decaying(4, 3), loss=lambda model, batch: (model(batch[0]) ** 2).mean(),
             train_data=[(torch.ones(4), 1)] * 64, batch_size=16, micro_batches=1, steps=4, device="twin")
)");
  const Outcome outcome = run(local(scratch_ / "run", 1, "auto", 0, train));
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("the model changes its parameter bias while it computes a gradient"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
