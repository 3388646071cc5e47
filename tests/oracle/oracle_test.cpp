// PyTorch and torchvision themselves, where a Python has them: the golden files are what they make, they and
// Rekindle read each other's weights, and a gpt learns a text as well there.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "../needs.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

constexpr const char* kNoTorch =
    "needs a python3 with torch, torchvision, safetensors, h5py, pillow and numpy (REKINDLE_ORACLE_PYTHON "
    "names it)";

class Oracle : public testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("REKINDLE_ORACLE_PYTHON");
    python_ = named == nullptr ? "python3" : named;
    Program program(
        {"/usr/bin/env", python_, "-c", "import h5py, numpy, PIL, safetensors, torch, torchvision"});
    if (program.wait().exit_code != 0) REKINDLE_SKIP(Needs::kPython, kNoTorch);
  }

  // Runs a script of this folder.
  void expect_ok(const std::string& script, const Arguments& arguments) const {
    const fs::path folder = fs::path(REKINDLE_SOURCE) / "tests/oracle";
    Program program(Arguments{"/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", python_, folder / script} +
                    arguments);
    // A little less than the tests' TIMEOUT.
    EXPECT_TRUE(eventually([&] { return !program.running(); }, std::chrono::minutes(28))) << script;
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    std::printf("%s", outcome.out.c_str());
  }

  static std::string golden(const std::string& name) {
    return fs::path(REKINDLE_SOURCE) / "tests/model/golden" / name;
  }

 private:
  std::string python_;
};

class GoldenFiles : public Oracle, public testing::WithParamInterface<std::string> {};

TEST_P(GoldenFiles, AreTheWalksOfPyTorch) { expect_ok("walks.py", {"check", golden("walks"), GetParam()}); }
INSTANTIATE_TEST_SUITE_P(, GoldenFiles, testing::Values("gpt", "mnist-cnn", "resnet18", "vgg11", "vgg11_bn"),
                         [](const auto& info) {
                           return info.param == "mnist-cnn" ? "mnist_cnn" : info.param;
                         });

TEST_F(Oracle, WholeRunIsTheWalkOfPyTorch) {
  for (const char* name : {"whole_run.json", "limited_run.json"})
    expect_ok("whole_run.py", {"check", fs::path(REKINDLE_SOURCE) / "tests/process/golden" / name});
}

TEST_F(Oracle, StateDictsAreTorchvisions) {
  expect_ok("state_dicts.py", {"check", golden("state_dicts.json")});
}

// Two times three trainings, 5 minutes on two cores: the longest test here.
TEST_F(Oracle, GptLearnsTheLicences) { expect_ok("gpt_loss.py", {rekindle()}); }

class Interchange : public Oracle, public testing::WithParamInterface<std::string> {};

TEST_P(Interchange, TorchvisionsWeightsStartARunAndItsExportLoadsThere) {
  expect_ok("check_init.py", {rekindle(), cifar_data(), GetParam()});
}
INSTANTIATE_TEST_SUITE_P(, Interchange, testing::Values("vgg11", "vgg16_bn", "resnet18"),
                         [](const auto& info) { return info.param; });

TEST_F(Oracle, AnExportWithAnOptimizerLoadsInTorchvision) {
  const Scratch scratch;
  const Outcome trained = run({"local", "--run-dir", scratch / "run", "--data", cifar_data(), "--model",
                               "resnet18", "--image-size", "64", "--batch-size", "8", "--micro-batches", "4",
                               "--steps", "2", "--optimizer", "adamw"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string pt = scratch / "out.pt", safetensors = scratch / "out.safetensors";
  for (const std::string& file : {pt, safetensors})
    ASSERT_EQ(run({"export", scratch / "run", file, "--with-optimizer"}).exit_code, 0);
  expect_ok("check_torch.py", {pt, safetensors});
  expect_ok("check_safetensors.py", {safetensors});
}

}  // namespace
}  // namespace rekindle::process_test
