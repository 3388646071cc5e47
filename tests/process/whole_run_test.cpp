// Whole runs of two trainers against PyTorch: data set, order of the samples, augmentation, schedule,
// exchange and update; in a second one also clipping, groups of parameters and the average.
// tests/oracle/whole_run.py made the golden files; tests/model/golden/README.md explains them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../model/golden.hpp"
#include "../model/golden_file.hpp"
#include "../read_lines.hpp"
#include "base/text.hpp"
#include "checkpoint/tensor_file.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

namespace golden = model::golden;
using checkpoint::Tensors;

// The bytes of whole_run.py's data set.
void write_data(const fs::path& folder, std::size_t samples) {
  constexpr std::uint64_t kPart = 1000;
  constexpr int kPixels = 3 * 32 * 32;
  fs::create_directory(folder);
  Rng pixels = golden::stream(golden::kImages, kPart);
  std::string records;
  for (const std::int64_t label : golden::integers(golden::kLabels, kPart, samples, 10)) {
    records.push_back(static_cast<char>(label));
    for (int i = 0; i < kPixels; ++i) records.push_back(static_cast<char>(pixels.next() >> 56));
  }
  for (const char* name : {"data_batch_1.bin", "test_batch.bin"})
    std::ofstream(folder / name, std::ios::binary) << records;
}

// The tensors of the golden file in its order, filled with zeros.
Tensors tensors_of(const nlohmann::json& file) {
  Tensors tensors;
  for (std::size_t i = 0; i < file["tensors"].size(); ++i) {
    const std::string name = file["tensors"][i][0];
    tensors.add({name, golden::is_counter(name) ? checkpoint::Dtype::kInt64 : checkpoint::Dtype::kFloat32,
                 file["shapes"][i].get<std::vector<std::int64_t>>(), checkpoint::Role::kParameter});
  }
  return tensors;
}

void write_initial(const nlohmann::json& file, const fs::path& path) {
  const Tensors tensors = tensors_of(file);
  golden::begin(tensors.state);
  for (const auto& tensor : tensors.state) {
    if (!tensor.spec.name.ends_with("running_var")) continue;
    const std::span<float> values(reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / 4);
    std::ranges::fill(values, 1.0F);
  }
  const Status written = checkpoint::write_tensors(path, tensors.state);
  ASSERT_TRUE(written) << written.error().line();
}

// The tensors of an exported file, in the order of the golden file.
Tensors exported(const fs::path& run_dir, const nlohmann::json& file, const fs::path& path) {
  Tensors ordered = tensors_of(file);
  const Outcome outcome = run({"export", run_dir, path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto read = checkpoint::read_safetensors(path);
  EXPECT_TRUE(read);
  for (const auto& tensor : ordered.state) {
    const auto found = std::ranges::find_if(
        read->state, [&](const auto& each) { return each.spec.name == tensor.spec.name; });
    EXPECT_TRUE(found != read->state.end() && found->bytes.size() == tensor.bytes.size()) << tensor.spec.name;
    if (found != read->state.end()) std::ranges::copy(found->bytes, tensor.bytes.begin());
  }
  return ordered;
}

class WholeRun : public testing::Test {
 protected:
  explicit WholeRun(const char* name = "whole_run")
      : file_(golden::read_golden(fs::path(REKINDLE_SOURCE) / "tests/process/golden" / str(name, ".json"))) {}
  void SetUp() override {
    write_data(scratch_ / "data", recipe_.at("train_samples"));
    write_initial(file_, scratch_ / "initial.safetensors");
  }

  // Distances of a run with these options after the recipe's own.
  golden::Distances walk(const std::string& name, const Arguments& more) const {
    const auto text = [&](const char* key) { return recipe_.at(key).dump(); };
    const auto value = [&](const char* key) { return recipe_.at("hyperparameters").at(key).dump(); };
    const int samples = recipe_.at("micro_batches").get<int>() * recipe_.at("samples").get<int>();
    const fs::path dir = scratch_ / name;
    const Outcome outcome = run(Arguments{"local",
                                          "--run-dir",
                                          dir,
                                          "--workers",
                                          "2",
                                          "--data",
                                          scratch_ / "data",
                                          "--model",
                                          "resnet18",
                                          "--init",
                                          scratch_ / "initial.safetensors",
                                          "--image-size",
                                          recipe_.at("options").at("image_size").dump(),
                                          "--batch-size",
                                          std::to_string(samples),
                                          "--micro-batches",
                                          text("micro_batches"),
                                          "--steps",
                                          text("steps"),
                                          "--optimizer",
                                          "sgd",
                                          "--nesterov",
                                          "--momentum",
                                          value("momentum"),
                                          "--weight-decay",
                                          value("weight_decay"),
                                          "--lr",
                                          text("lr"),
                                          "--label-smoothing",
                                          text("label_smoothing")} +
                                more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    golden::Walk walked;
    for (const auto& line : run::read_lines(run::Layout(dir).metrics())) {
      if (!line.contains("loss")) continue;
      const double rate = file_.at("rates").at(walked.losses.size());
      EXPECT_TRUE(name != kRight || std::abs(line.at("lr").get<double>() / rate - 1) < 1e-12) << line;
      walked.losses.push_back(line.at("loss"));
    }
    EXPECT_EQ(walked.losses.size(), recipe_.at("steps").get<std::size_t>());
    walked.sketches = golden::sketches_of(exported(dir, file_, scratch_ / (name + ".safetensors")).state);
    return golden::distances(walked, file_);
  }

  static constexpr const char* kRight = "right";
  static Arguments right_options() { return options("5", "cosine", "on", "3"); }
  static Arguments options(const char* seed, const char* schedule, const char* augment, const char* warmup) {
    return {"--seed", seed, "--schedule", schedule, "--augment", augment, "--warmup-steps", warmup};
  }

  // Each of these options is wrong in one place.
  void is_found(const std::vector<Arguments>& all) const {
    int number = 0;
    for (const Arguments& wrong : all) {
      const golden::Distances ours = walk(std::to_string(++number), wrong);
      EXPECT_GT(ours.parameters, 2 * pytorch_.parameters) << number;
      std::printf("wrong options %d: %.3g times PyTorch's distance\n", number,
                  ours.parameters / pytorch_.parameters);
    }
  }

  const nlohmann::json file_;
  const nlohmann::json& recipe_ = file_.at("recipe");
  const golden::Distances pytorch_ = golden::of_pytorch(file_);
  const Scratch scratch_;
};

// Otherwise the bound of twice PyTorch's distance would be so wide that faults pass.
TEST(WholeRunFiles, LossesFallAndFloat32EndsNearFloat64) {
  for (const char* name : {"whole_run.json", "limited_run.json"}) {
    const golden::Sharpness found =
        golden::sharpness_of(golden::read_golden(fs::path(REKINDLE_SOURCE) / "tests/process/golden" / name));
    EXPECT_GE(found.fall, 0.1) << name;
    EXPECT_LE(found.parameters, 0.02) << name;
    EXPECT_LE(found.buffers, 0.02) << name;
  }
}

TEST_F(WholeRun, OfTwoTrainers_AsCloseToFloat64AsPyTorch) {
  const golden::Distances ours = walk(kRight, right_options());
  EXPECT_TRUE(golden::is_near(ours, pytorch_));
  golden::print(ours, pytorch_);
}

// The seed makes the order of the samples and their windows.
TEST_F(WholeRun, WithAWrongOption_IsFound) {
  is_found({options("6", "cosine", "on", "3"), options("5", "linear", "on", "3"),
            options("5", "cosine", "off", "3"), options("5", "cosine", "on", "4")});
}

class LimitedRun : public WholeRun {
 protected:
  LimitedRun() : WholeRun("limited_run") {}
  static Arguments options(const char* norm, const char* decay, const char* scale,
                           const Arguments& undecayed = {"--no-decay", "*bn*", "--no-decay", "fc.bias"}) {
    return right_options() + Arguments{"--clip-norm", norm, "--ema", decay, "--lr-scale", scale} + undecayed;
  }
};

TEST_F(LimitedRun, OfTwoTrainers_AsCloseToFloat64AsPyTorch) {
  const golden::Distances ours = walk(kRight, options("50", "0.8", "fc.*=0.5"));
  EXPECT_TRUE(golden::is_near(ours, pytorch_));
  golden::print(ours, pytorch_);
}

TEST_F(LimitedRun, WithAWrongOption_IsFound) {
  is_found({options("50.5", "0.8", "fc.*=0.5"), options("50", "0.81", "fc.*=0.5"),
            options("50", "0.8", "fc.*=0.51"), options("50", "0.8", "fc.*=0.5", {"--no-decay", "fc.bias"})});
}

}  // namespace
}  // namespace rekindle::process_test
