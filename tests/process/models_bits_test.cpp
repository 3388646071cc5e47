// Promise 1 for each family of models: batch norm's statistics, a moving average, dropout, clipping and
// bfloat16 have the same bits for any number of workers, over both exchanges, after stops and kills.
#include <gtest/gtest.h>

#include <fstream>

#include "../needs.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 8;

struct Model {
  const char* name;
  // Of the run with a kill and a stop: so many that both come in time, though a small model makes a hundred
  // steps a second.
  int steps_with_faults;
  Arguments options;
};

// Otherwise the names of the tests end in addresses.
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

std::string name_of_test(const testing::TestParamInfo<Model>& info) { return info.param.name; }

class ModelBits : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    std::ifstream cpu("/proc/cpuinfo");
    const std::string flags(std::istreambuf_iterator<char>(cpu), {});
    if (std::string(GetParam().name) == "Bf16" && flags.find("avx512_bf16") == std::string::npos)
      REKINDLE_SKIP(Needs::kMachine, "this CPU has no instructions for bfloat16");
    const Outcome made = run({"make-data", "text", text(), "--samples", "100"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  std::string text() const { return scratch_ / "text"; }
  Arguments arguments(const fs::path& dir, int workers, const std::string& exchange,
                      int steps = kSteps) const {
    Arguments all = {"local",    "--run-dir",    dir,  "--workers",       str(workers), "--steps",
                     str(steps), "--batch-size", "16", "--micro-batches", "8",          "--exchange",
                     exchange};
    for (const std::string& option : GetParam().options)
      all.push_back(option == "TEXT"    ? text()
                    : option == "CIFAR" ? cifar_data().string()
                    : option == "MNIST" ? mnist_data().string()
                                        : option);
    return all;
  }
  std::string digest(const std::string& name, int workers, const std::string& exchange,
                     int steps = kSteps) const {
    const fs::path dir = scratch_ / name;
    const Outcome outcome = run(arguments(dir, workers, exchange, steps));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    std::string made = digest_of(dir);
    fs::remove_all(dir);  // a VGG with its average has a gigabyte
    return made;
  }
  // A run with a kill and a stop over `exchange`, which goes on over tcp with fewer workers, is compared with
  // a run that nothing disturbs.
  void kill_stop_and_compare(const std::string& exchange) const {
    const int steps = GetParam().steps_with_faults;
    const std::string expected = digest("quiet", 1, "shm", steps);
    ASSERT_EQ(expected.size(), 33U) << expected;
    const fs::path dir = scratch_ / "faults";
    ASSERT_NO_FATAL_FAILURE(kill_a_trainer_and_stop(arguments(dir, 3, exchange, steps), dir, 2));
    const Outcome resumed = run(arguments(dir, 2, "tcp", steps));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
    EXPECT_EQ(digest_of(dir), expected);
  }
  Scratch scratch_;
};
INSTANTIATE_TEST_SUITE_P(
    All, ModelBits,
    ::testing::Values(Model{"Resnet18",
                            16,
                            {"--model", "resnet18", "--data", "CIFAR", "--image-size", "64", "--lr", "0.01",
                             "--no-decay", "*.bias,*bn?.weight", "--lr-scale", "fc.*=0.5"}},
                      Model{"Gpt", 150, {"--model",     "gpt",    "--data",         "TEXT",
                                         "--layers",    "2",      "--width",        "64",
                                         "--context",   "64",     "--dropout",      "0.1",
                                         "--optimizer", "adamw",  "--clip-norm",    "0.5",
                                         "--schedule",  "cosine", "--warmup-steps", "3"}},
                      Model{"Vgg11BnWithAverage",
                            10,
                            {"--model", "vgg11_bn", "--data", "CIFAR", "--image-size", "32", "--ema", "0.9"}},
                      Model{"Bf16", 200, {"--model", "mnist-cnn", "--data", "MNIST", "--precision", "bf16"}}),
    name_of_test);

TEST_P(ModelBits, AnyNumberOfWorkersAStopAndAKill_SameDigest) {
  const std::string expected = digest("w1", 1, "shm");
  ASSERT_EQ(expected.size(), 33U) << expected;
  for (const int workers : {2, 3, 5, 8}) {
    EXPECT_EQ(digest(str("shm", workers), workers, "shm"), expected) << workers << " workers";
    if (workers == 3 || workers == 5) {
      EXPECT_EQ(digest(str("tcp", workers), workers, "tcp"), expected) << workers << " workers";
    }
  }
  kill_stop_and_compare("shm");
}

TEST_P(ModelBits, OverTcp_AnyNumberOfWorkersAStopAndAKill_SameDigest) {
  const std::string expected = digest("shm", 2, "shm");
  ASSERT_EQ(expected.size(), 33U) << expected;
  for (const int workers : {1, 2, 3, 5, 8})
    EXPECT_EQ(digest(str("tcp", workers), workers, "tcp"), expected) << workers << " workers";
  kill_stop_and_compare("tcp");
}

}  // namespace
}  // namespace rekindle::process_test
