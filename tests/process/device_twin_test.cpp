// A GPU's code end to end, on memory of the host (--device twin): the same digest as on a CPU, with gradients
// through the host and by a stand-in for NCCL, whatever happens on the way.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.hpp"
#include "base/text.hpp"
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
    for (const char* name :
         {"REKINDLE_NCCL_LIBRARY", "REKINDLE_NVML_LIBRARY", "NVML_STAND_IN_HANGS", "NCCL_STAND_IN_VERSION",
          "NCCL_STAND_IN_FAIL", "NCCL_STAND_IN_STUCK", "REKINDLE_TWIN_GPUS", "REKINDLE_TWIN_MEMORY"})
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
  EXPECT_NE(program.printed().find("gradients go from GPU to GPU by NCCL 2.28.9"), std::string::npos);
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
}

TEST_F(DeviceTwin, ExchangeNcclWithoutAUsableNccl_78BeforeTheFirstStep) {
  const auto refused = [&](const std::string& name, const std::string& why) {
    const Outcome outcome = run(twin(name, 2, "nccl"));
    EXPECT_EQ(outcome.exit_code, 78) << outcome.err;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("--exchange auto goes through the host's memory"), std::string::npos);
    EXPECT_EQ(reached_step(scratch_ / name), 0U);
  };
  ::setenv("NCCL_STAND_IN_VERSION", "21700", 1);
  refused("old", "NCCL 2.17.0 is too old");
  ::unsetenv("NCCL_STAND_IN_VERSION");
  ::setenv("REKINDLE_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  refused("none", "/nowhere/libnccl.so.2 is not there");
}

// As in a container whose /dev/shm is too small, on GPUs without another way between them.
TEST_F(DeviceTwin, NcclAlwaysFails_AutoGoesThroughHostMemoryAndNcclEndsTheRun) {
  const std::string expected = finished("cpu", mnist_run(scratch_ / "cpu", 1, 20));
  for (const std::string what : {"init", "group"}) {
    SCOPED_TRACE(what);
    ::setenv("NCCL_STAND_IN_FAIL", what.c_str(), 1);
    const Outcome through_host = run(twin("auto-" + what, 2, "auto", 20));
    EXPECT_EQ(through_host.exit_code, 0) << through_host.err;
    const std::string said = through_host.out + through_host.err;
    EXPECT_NE(said.find("NCCL: error 2: the stand-in's error"), std::string::npos) << said;
    EXPECT_NE(said.find("gradients go through host memory: NCCL has failed"), std::string::npos) << said;
    EXPECT_EQ(digest_of(scratch_ / ("auto-" + what)), expected);
    const Outcome ends = run(twin("nccl-" + what, 2, "nccl", 20));
    EXPECT_EQ(ends.exit_code, 70) << ends.out << ends.err;
    EXPECT_NE(ends.err.find("an exchange fails again and again at step 0"), std::string::npos) << ends.err;
    EXPECT_NE(ends.err.find("NCCL: error 2: the stand-in's error"), std::string::npos) << ends.err;
  }
}

// Its communicator cannot be ended then, and its memory cannot be given back.
TEST_F(DeviceTwin, TheDeviceFails_TheErrorIsReadAndCountedAsACrash) {
  ::setenv("NCCL_STAND_IN_FAIL", "kernel", 1);
  ::setenv("NCCL_STAND_IN_STUCK", "end", 1);
  // One trainer alone would make steps meanwhile, if the other one is killed because it cannot end NCCL.
  const Outcome outcome = run(twin("run", 2, "nccl", 20) + Arguments{"--min-trainers", "2"});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  // An operation on a stream may fail some steps before the program looks.
  EXPECT_NE(outcome.err.find("trainers crash again and again at step"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("an operation of another library failed with 1"), std::string::npos)
      << outcome.err;
}

TEST_F(DeviceTwin, AnotherNcclOnResume_AWarningThatTheBitsMayDiffer) {
  ::setenv("NCCL_STAND_IN_VERSION", "22707", 1);
  finished("run", twin("run", 2, "auto", 10));
  const Outcome same = run(twin("run", 2, "shm", 20));
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ((same.out + same.err).find("bits may differ"), std::string::npos) << "--exchange is no cause";
  ::unsetenv("NCCL_STAND_IN_VERSION");
  const Outcome outcome = run(twin("run", 2, "auto", 30));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string all = outcome.out + outcome.err;
  EXPECT_NE(all.find("the trainers have nccl 22809 (not 22707); from here on the bits may differ"),
            std::string::npos)
      << all;
}

// A machine with four GPUs: the trainer that joins counts from 0 again, and takes a GPU that is free. With
// --exchange nccl it would be refused on a taken one.
TEST_F(DeviceTwin, AHelperOnTheMachineOfTheRun_TakesAFreeGpu) {
  const std::string mine = str("twin-", ::getpid(), "-");
  ::setenv("REKINDLE_TWIN_GPUS", str(mine, 0, ",", mine, 1, ",", mine, 2, ",", mine, 3).c_str(), 1);
  Program program(Arguments{rekindle()} + twin("run", 2, "nccl", 100000));
  wait_for_step(program, "run", 1);
  Program joins(Arguments{rekindle(), "join", scratch_ / "run", "--workers", "2"});
  ASSERT_TRUE(eventually([&] { return trainers_now(scratch_ / "run") == 4 || !joins.running(); }))
      << joins.printed() << program.printed();
  EXPECT_EQ(trainers_now(scratch_ / "run"), 4) << joins.printed();
  EXPECT_NE(program.printed().find("this run uses 2 of 4 GPUs on "), std::string::npos) << program.printed();
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
  joins.wait();
}

TEST_F(DeviceTwin, MoreTrainersThanGpus_ShareThemAndSayIt) {
  const std::string mine = str("twin-", ::getpid(), "-shared");
  ::setenv("REKINDLE_TWIN_GPUS", mine.c_str(), 1);
  const Outcome outcome = run(twin("run", 2, "auto", 5));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err).find("2 trainers share one GPU"), std::string::npos) << outcome.err;
}

// The trainer without a GPU is tried again and again; the others do not wait for it.
TEST_F(DeviceTwin, OneGpuCannotBeOpened_TheOthersTrainAndItIsNamed) {
  const std::string expected = on_cpu();
  const std::string mine = str("twin-", ::getpid(), "-one-");
  ::setenv("REKINDLE_TWIN_GPUS", str(mine, 0, ",!", mine, 1, ",", mine, 2).c_str(), 1);
  const Outcome outcome = run(twin("run", 3, "nccl"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string said = outcome.out + outcome.err;
  EXPECT_NE(said.find("GPU 1 cannot be used: it is a broken twin; each other GPU here has a trainer"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("this run uses 2 of 3 GPUs on "), std::string::npos) << said;
  const std::string first = read_text(scratch_ / "run" / "metrics.jsonl").value_or("");
  EXPECT_EQ(nlohmann::json::parse(first.substr(0, first.find('\n'))).value("trainers", 0), 2);
  EXPECT_EQ(digest_of(scratch_ / "run"), expected);
}

TEST_F(DeviceTwin, NoGpuCanBeOpened_TheRunEndsAtOnceAndSaysWhy) {
  const std::string mine = str("!twin-", ::getpid(), "-none-");
  ::setenv("REKINDLE_TWIN_GPUS", str(mine, 0, ",", mine, 1).c_str(), 1);
  const Outcome outcome = run(twin("run", 2, "auto"));
  EXPECT_EQ(outcome.exit_code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("cannot be used: it is a broken twin: look at it"), std::string::npos)
      << outcome.err;
}

// The exchange by NCCL needs more memory of a GPU than the one through the host: here 2.4 MB more, for what
// the joined trainer sends.
TEST_F(DeviceTwin, TooLittleMemoryForNccl_GoesThroughHostMemory) {
  ::setenv("REKINDLE_TWIN_MEMORY", "39500000", 1);
  Program program(Arguments{rekindle()} + twin("run", 1, "auto", 100000));
  wait_for_step(program, "run", 1);
  Program joins({rekindle(), "join", scratch_ / "run"});
  EXPECT_TRUE(eventually([&] { return trainers_now(scratch_ / "run") == 2; })) << program.printed();
  const std::string said = program.printed();
  EXPECT_NE(said.find("bytes, which the exchange by NCCL needs"), std::string::npos) << said;
  EXPECT_NE(said.find("gradients go through host memory: NCCL has failed"), std::string::npos) << said;
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
  joins.wait();
}

TEST_F(DeviceTwin, NvmlHangs_TheRunDoesNot) {
  for (const char* function : {"init", "memory"}) {
    ::setenv("NVML_STAND_IN_HANGS", function, 1);
    finished(function, twin(function, 2, "nccl", 20));
  }
}

}  // namespace
}  // namespace rekindle::process_test
