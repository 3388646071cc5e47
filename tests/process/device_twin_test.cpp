// A GPU's code end to end, on memory of the host (--device twin): the same digest as on a CPU, with gradients
// through the host and by a stand-in for NCCL, whatever happens on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 80;

class DeviceTwin : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("REKINDLE_NCCL_LIBRARY", REKINDLE_NCCL_STAND_IN, 1);
    ::setenv("REKINDLE_NVML_LIBRARY", REKINDLE_NVML_STAND_IN, 1);
  }
  void TearDown() override {
    for (const char* name : {"REKINDLE_NCCL_LIBRARY", "REKINDLE_NVML_LIBRARY", "NVML_STAND_IN_HANGS"})
      ::unsetenv(name);
  }

  std::string finished(const std::string& name, const Arguments& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << name << outcome.out << outcome.err;
    return digest_of(scratch_ / name);
  }
  Arguments twin(const std::string& name, int workers, const std::string& exchange,
                 int steps = kSteps) const {
    return mnist_run(scratch_ / name, workers, steps) + Arguments{"--device", "twin", "--exchange", exchange};
  }
  std::string on_cpu(const Arguments& more = {}) {
    return finished("cpu", mnist_run(scratch_ / "cpu", 1, kSteps) + more);
  }
  void wait_for_step(const Program& program, const std::string& name, std::uint64_t step) {
    ASSERT_TRUE(eventually([&] { return reached_step(scratch_ / name) >= step; })) << program.printed();
  }

  Scratch scratch_;
};

TEST_F(DeviceTwin, AnyNumberOfTrainers_SameDigestAsOnACpu) {
  const std::string expected = on_cpu();
  for (const auto& [workers, exchange] :
       {std::pair(1, "auto"), {2, "nccl"}, {3, "auto"}, {4, "nccl"}, {2, "shm"}, {3, "tcp"}}) {
    const std::string name = exchange + std::to_string(workers);
    EXPECT_EQ(finished(name, twin(name, workers, exchange)), expected) << name;
  }
}

// The file has no head, which begins as the seed draws it.
TEST_F(DeviceTwin, BeginsFromWeightsWithAResetHead_SameDigestAsOnACpu) {
  const fs::path weights = scratch_ / "weights.safetensors";
  finished("before", mnist_run(scratch_ / "before", 1, 5));
  ASSERT_EQ(run({"export", scratch_ / "before", weights}).exit_code, 0);
  const Arguments options = {"--init", weights, "--reset-head", "--optimizer", "adamw"};
  const std::string expected = finished("cpu", mnist_run(scratch_ / "cpu", 1, 5) + options);
  EXPECT_EQ(finished("twin", twin("twin", 2, "shm", 5) + options), expected);
}

TEST_F(DeviceTwin, EveryOptimizerClippingAndAverages_SameDigestForAnyNumberOfTrainers) {
  for (const Arguments& options :
       {Arguments{"--optimizer", "adamw", "--ema", "0.9"}, Arguments{"--optimizer", "adadelta"},
        Arguments{"--optimizer", "rmsprop", "--clip-norm", "0.5"}}) {
    const std::string alone = finished("alone", twin("alone", 1, "nccl", 20) + options);
    EXPECT_EQ(finished("three", twin("three", 3, "nccl", 20) + options), alone) << options[1];
    if (options[1] != "rmsprop") {  // the norm has other bits on a device
      EXPECT_EQ(finished("cpu", mnist_run(scratch_ / "cpu", 1, 20) + options), alone) << options[1];
    }
    for (const char* name : {"alone", "three", "cpu"}) fs::remove_all(scratch_ / name);
  }
}

// Means and counters of batch normalization, and an average of them.
TEST_F(DeviceTwin, AModelWithBuffers_SameDigestAsOnACpu) {
  const Arguments options{"--model",         "resnet18", "--batch-size", "16",
                          "--micro-batches", "4",        "--ema",        "0.9"};
  const auto run_of = [&](const std::string& name, int workers, const Arguments& more) {
    return finished(name,
                    vgg_run(scratch_ / name, workers, 3) + Arguments{"--image-size", "32"} + options + more);
  };
  const std::string expected = run_of("cpu", 1, {});
  EXPECT_EQ(run_of("twin1", 1, {"--device", "twin"}), expected);
  EXPECT_EQ(run_of("twin3", 3, {"--device", "twin", "--exchange", "nccl"}), expected);
}

TEST_F(DeviceTwin, KillsAJoinAStopAndAResume_SameDigest) {
  const std::string expected = on_cpu();
  for (const char* exchange : {"nccl", "shm"}) {
    const std::string name = std::string("faults-") + exchange;
    const fs::path dir = scratch_ / name;
    {
      Program program(Arguments{rekindle()} + twin(name, 3, exchange));
      wait_for_step(program, name, 10);
      const std::vector<pid_t> trainers = parts_of(dir, "trainer");
      ASSERT_FALSE(trainers.empty());
      ASSERT_EQ(::kill(trainers.back(), SIGKILL), 0);
      wait_for_step(program, name, reached_step(dir) + 10);
      Program joins(Arguments{rekindle(), "join", dir});
      ASSERT_TRUE(eventually([&] { return trainers_now(dir) == 4 || !program.running(); }));
      program.signal(SIGUSR1);
      EXPECT_EQ(program.wait().exit_code, 75);
      joins.wait();
    }
    EXPECT_EQ(finished(name, twin(name, 2, exchange)), expected) << exchange;
  }
}

TEST_F(DeviceTwin, Status_HasTheGpusNameMemoryAndUse) {
  const std::string dir = (scratch_ / "run").string();
  Program program(Arguments{rekindle()} + twin("run", 2, "nccl", 100000));
  nlohmann::json trainers;
  const auto all_known = [&] {
    trainers = nlohmann::json::parse(run({"status", dir, "--json"}).out, nullptr, false)["trainers"];
    return trainers.size() == 2 && std::ranges::all_of(trainers, [](const nlohmann::json& each) {
             return each.contains("gpu_used_bytes") && each["step"] > 0;
           });
  };
  wait_for_step(program, "run", 1);
  ASSERT_TRUE(eventually(all_known)) << trainers;
  for (const nlohmann::json& each : trainers) {
    EXPECT_EQ(each["gpu"], "host twin");
    EXPECT_EQ(each["gpu_used_bytes"], 12'000'000'000);
    EXPECT_EQ(each["gpu_total_bytes"], 80'000'000'000);
    EXPECT_EQ(each["gpu_busy_percent"], 97);
  }
  const std::string shown = run({"status", dir}).out;
  EXPECT_NE(shown.find("  host twin, 12.0 GB of 80.0 GB in use, 97 % busy\n"), std::string::npos) << shown;
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
}

TEST_F(DeviceTwin, NvmlHangs_TheRunDoesNot) {
  for (const char* function : {"init", "memory"}) {
    ::setenv("NVML_STAND_IN_HANGS", function, 1);
    finished(function, twin(function, 2, "nccl", 20));
  }
}

}  // namespace
}  // namespace rekindle::process_test
