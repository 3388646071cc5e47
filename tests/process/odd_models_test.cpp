// Models that share, freeze or spoil their tensors, in a program outside of the tree: odd-models/, which the
// ctest OwnModel.Build has built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const fs::path kTrainer = fs::path(OWN_MODEL) / "odd models" / "build" / "odd-trainer";

// The lines of stderr that are not about the progress of the run.
std::vector<std::string> errors_in(const std::string& err) {
  std::vector<std::string> errors;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" info ") == std::string::npos) errors.push_back(line);
  return errors;
}

// What a .safetensors file has: the header, and the bytes of each tensor.
struct File {
  explicit File(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    const std::string all = text.str();
    std::uint64_t size = 0;
    std::memcpy(&size, all.data(), sizeof size);
    header = nlohmann::json::parse(all.substr(sizeof size, size));
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t first = tensor.at("data_offsets").at(0), end = tensor.at("data_offsets").at(1);
      names.push_back(name);
      bytes[name] = all.substr(sizeof size + size + first, end - first);
    }
  }
  // The file without one of its tensors.
  std::string without(const std::string& name) const {
    nlohmann::json kept = header;
    kept.erase(name);
    std::string data;
    for (auto& [key, tensor] : kept.items()) {
      if (key == "__metadata__") continue;
      const std::size_t first = data.size();
      data += bytes.at(key);
      tensor["data_offsets"] = {first, data.size()};
    }
    const std::string text = kept.dump();
    const std::uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data;
  }

  nlohmann::json header;
  std::vector<std::string> names;  // sorted
  std::map<std::string, std::string> bytes;
};

class OddModels : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome made = run({"make-data", "mnist", data_, "--samples", "80"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  Arguments job(const fs::path& run_dir, const std::string& model, int workers, int steps) const {
    return {"local",      "--run-dir",       run_dir, "--model",      model,      "--data",
            data_,        "--dataset",       "mnist", "--image-size", "8",        "--batch-size",
            "16",         "--micro-batches", "4",     "--steps",      str(steps), "--workers",
            str(workers), "--weight-decay",  "0.1"};
  }
  Outcome trainer(const Arguments& arguments) const {
    return Program(Arguments{kTrainer} + arguments).wait();
  }
  void train(const Arguments& arguments) const {
    const Outcome done = trainer(arguments);
    ASSERT_EQ(done.exit_code, 0) << done.out << done.err;
  }
  File exported(const fs::path& run_dir) const {
    const fs::path file = run_dir.string() + ".safetensors";
    const Outcome done = trainer({"export", run_dir, file});
    EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
    return File(file);
  }
  void refused(const std::string& model, const std::string& line, bool before_the_run_begins) const {
    const fs::path dir = scratch_ / model;
    const Outcome done = trainer(job(dir, model, 2, 3));
    EXPECT_EQ(done.exit_code, 78) << done.out << done.err;
    EXPECT_THAT(errors_in(done.err), ElementsAre(AllOf(StartsWith("rekindle: "), HasSubstr(line)))) << model;
    if (before_the_run_begins) {
      EXPECT_EQ(times_in(done.err, "\n"), 1U) << done.err;
      EXPECT_FALSE(fs::exists(dir));
    }
    EXPECT_FALSE(fs::exists(dir / "checkpoints") && !fs::is_empty(dir / "checkpoints"));
  }
  Scratch scratch_;
  const fs::path data_ = scratch_ / "data";
};

TEST_F(OddModels, SharedWeights_HaveBothNamesInAnExport_WhichIsTakenAsInitialValues) {
  const fs::path one = scratch_ / "one", two = scratch_ / "two";
  train(job(one, "tied", 1, 4));
  train(job(two, "tied", 2, 4));
  EXPECT_EQ(digest_of(one), digest_of(two));
  const File file = exported(one);
  EXPECT_THAT(file.names,
              ElementsAre("again.weight", "first.bias", "first.weight", "head.bias", "head.weight"));
  EXPECT_EQ(file.bytes.at("again.weight"), file.bytes.at("first.weight"));

  const std::string path = one.string() + ".safetensors";
  train(job(scratch_ / "more", "tied", 1, 1) + Arguments{"--init", path});
  const fs::path last_name = scratch_ / "last_name.safetensors";  // as safetensors' save_model() keeps one
  std::ofstream(last_name, std::ios::binary) << file.without("first.weight");
  train(job(scratch_ / "last", "tied", 1, 1) + Arguments{"--init", last_name});
  EXPECT_EQ(digest_of(scratch_ / "last"), digest_of(scratch_ / "more"));
  const Outcome of_run = trainer({"evaluate", one}),
                of_file = trainer({"evaluate", path, "--model", "tied", "--dataset", "mnist", "--data", data_,
                                   "--image-size", "8"});
  EXPECT_EQ(of_run.exit_code, 0) << of_run.err;
  EXPECT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_THAT(of_run.out, HasSubstr("accuracy"));
}

TEST_F(OddModels, FrozenParameter_KeepsItsBitsAlthoughOthersDecay) {
  const fs::path first = scratch_ / "first", longer = scratch_ / "longer";
  train(job(first, "frozen", 1, 1));
  train(job(longer, "frozen", 2, 5));
  const File before = exported(first), after = exported(longer);
  EXPECT_EQ(before.bytes.at("first.weight"), after.bytes.at("first.weight"));
  EXPECT_NE(before.bytes.at("first.bias"), after.bytes.at("first.bias"));
  EXPECT_NE(before.bytes.at("head.weight"), after.bytes.at("head.weight"));
}

// The weights would be NaN, and no later loss would tell.
TEST_F(OddModels, LastGradientThatIsNotFinite_70AndNothingIsSaved) {
  for (const int workers : {1, 2}) {
    const fs::path dir = scratch_ / str("steep", workers);
    const Outcome done = trainer(job(dir, "steep", workers, 1));
    EXPECT_EQ(done.exit_code, 70) << done.out << done.err;
    EXPECT_THAT(done.out + done.err,
                HasSubstr("the gradient of step 0 is not finite, though the loss is: lower --lr"));
    EXPECT_FALSE(fs::exists(dir / "checkpoints") && !fs::is_empty(dir / "checkpoints"));
  }
}

TEST_F(OddModels, GradientsThatAreNotFiniteWithAClipNorm_ChangeNothingAndAreCounted) {
  const Arguments clipped = {"--clip-norm", "1"};
  // Its first layer keeps the initial values, which are those of every model here.
  train(job(scratch_ / "initial", "frozen", 1, 1));
  train(job(scratch_ / "short", "steep", 1, 1) + clipped);
  const File initial = exported(scratch_ / "initial"), one = exported(scratch_ / "short");
  for (const int workers : {1, 2}) {
    const fs::path dir = scratch_ / str("steep", workers);
    for (const int steps : {2, 4}) train(job(dir, "steep", workers, steps) + clipped);
    const File four = exported(dir);
    EXPECT_EQ(four.bytes, one.bytes);
    EXPECT_EQ(four.bytes.at("first.weight"), initial.bytes.at("first.weight"));
    EXPECT_EQ(times_in(read_text(dir / "metrics.jsonl").value_or(""), R"("voided":true)"), 4U);
    EXPECT_THAT(run({"status", dir}).out, HasSubstr("4 steps whose gradient was not finite changed nothing"));
    EXPECT_THAT(run({"logs", dir}).out,
                HasSubstr("is not finite, so the step changed nothing (4 such steps in this run)"));
  }
  EXPECT_EQ(digest_of(scratch_ / "steep1"), digest_of(scratch_ / "steep2"));
}

TEST_F(OddModels, RowsOfNumbersWithANumberToPredict_SameBits) {
  const auto regression = [&](const char* name, const char* data, int workers) {
    return Arguments{"local", "--run-dir", scratch_ / name, "--model",         "regression", "--dataset",
                     data,    "--data",    data_,           "--batch-size",    "16",         "--steps",
                     "200",   "--workers", str(workers),    "--micro-batches", "4",          "--optimizer",
                     "adamw", "--lr",      "0.05"};
  };
  train(regression("one", "table", 1));
  train(regression("two", "table", 2));
  EXPECT_EQ(digest_of(scratch_ / "one"), digest_of(scratch_ / "two"));
  const Outcome evaluated = trainer({"evaluate", scratch_ / "one", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, Not(HasSubstr("accuracy")));
  const std::string metrics = read_text(scratch_ / "one" / "metrics.jsonl").value_or("");
  EXPECT_THAT(metrics, AllOf(HasSubstr("test_loss"), Not(HasSubstr("accuracy"))));
  EXPECT_LT(nlohmann::json::parse(evaluated.out).at("loss").get<double>(), 1)
      << "27.8 at first" << evaluated.out;
  const Outcome other_size = trainer(regression("sized", "table", 1) + Arguments{"--image-size", "2"});
  EXPECT_EQ(other_size.exit_code, 64);
  EXPECT_THAT(other_size.err,
              HasSubstr("--image-size 2 is not that of the data set table: use --image-size 1"));
  EXPECT_FALSE(fs::exists(scratch_ / "sized"));
  const Outcome no_hash = trainer(regression("three", "no-hash", 1));
  EXPECT_EQ(no_hash.exit_code, 78);
  EXPECT_THAT(no_hash.err,
              HasSubstr("the data set no-hash has no content hash: set DatasetInfo::content_hash"));
}

TEST_F(OddModels, OtherColumnsThanClasses_NoAccuracyIsReported_AndTheLowestLossIsKept) {
  const fs::path dir = scratch_ / "narrow";
  train(job(dir, "narrow", 2, 10) + Arguments{"--evaluate-every", "5", "--keep-best"});
  const std::string metrics = read_text(dir / "metrics.jsonl").value_or("");
  EXPECT_THAT(metrics, AllOf(HasSubstr("test_loss"), Not(HasSubstr("accuracy")), Not(HasSubstr("top5"))));
  const Outcome shown = trainer({"evaluate", dir}), all = trainer({"evaluate", dir, "--json", "--per-class"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("loss "), Not(HasSubstr("accuracy")), Not(HasSubstr("top5"))));
  ASSERT_EQ(all.exit_code, 0) << all.err;
  const nlohmann::json answer = nlohmann::json::parse(all.out);
  EXPECT_FALSE(answer.contains("accuracy")) << answer;
  EXPECT_TRUE(answer.at("classes").empty()) << answer;
}

// Of another number of samples at a time, or of another seed, other numbers are drawn.
TEST_F(OddModels, LossWithRandomNumbers_EvaluateSaysWhatTheRunSaid) {
  const fs::path dir = scratch_ / "drawing";
  train(job(dir, "drawing", 2, 3) + Arguments{"--seed", "7"});
  const auto own = run::last_evaluation(run::Layout(dir));
  ASSERT_TRUE(own);
  const auto loss = [&](const Arguments& more) {
    const Outcome evaluated = trainer(Arguments{"evaluate", dir, "--json"} + more);
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    return nlohmann::json::parse(evaluated.out).at("loss").get<double>();
  };
  EXPECT_NEAR(loss({}), own->at("test_loss").get<double>(), 1e-3);
  EXPECT_GT(std::abs(loss({"--batch-size", "16"}) - own->at("test_loss").get<double>()), 1e-2);
}

TEST_F(OddModels, LeafThatEachPassMakesAnew_IsTrained) {
  train(job(scratch_ / "one", "penalized", 1, 4));
  train(job(scratch_ / "two", "penalized", 2, 4));
  EXPECT_EQ(digest_of(scratch_ / "one"), digest_of(scratch_ / "two"));
}

TEST_F(OddModels, LabelThatIsNoClass_TheStateIsSavedAndTheSampleNamed) {
  Arguments words = job(scratch_ / "run", "frozen", 2, 12);
  std::ranges::replace(words, "mnist", "wrong-label");
  std::ranges::replace(words, "8", "1");
  const Outcome done = trainer(words);
  EXPECT_EQ(done.exit_code, 78) << done.out << done.err;
  EXPECT_THAT(done.err, HasSubstr("training sample 40 has label 10, and the data set table has 10 classes"));
  EXPECT_FALSE(fs::is_empty(scratch_ / "run" / "checkpoints")) << done.out << done.err;
}

TEST_F(OddModels, ModelsThatCannotBeTrained_AreRefusedInALine) {
  refused("doubled", "the model's tensor first.weight is of type Double: parameters have to be float32",
          true);
  refused("overlapping", "the model's tensors first.weight and row partly share memory", true);
  refused("momentous", "the state has two tensors named momentum.first.weight: rename the one of your model",
          true);
  refused("renormed", "the model changes its parameter table.weight in its forward or backward pass", false);
  refused("replacing", "the model replaced or added a parameter after it was built", false);
  refused("no-scalar", "the loss of no-scalar has shape [4]: it has to be a scalar", false);
  refused("putting", "the model uses an operator without a deterministic version: put_: use another operator",
          false);
  refused("loose", "the model computes with a trainable tensor of shape [64, 64] that it has not registered",
          false);
}

TEST_F(OddModels, MistakeOfTheFirstMicroBatch_TheSameCommandOfTheMendedProgramBeginsAnew) {
  const fs::path dir = scratch_ / "mendable", fresh = scratch_ / "fresh", mended = scratch_ / "mended";
  refused("mendable", "the loss of mendable has shape [4]: it has to be a scalar", false);
  EXPECT_TRUE(fs::exists(dir / "run.toml"));
  fs::copy(kTrainer, mended);
  std::ofstream(mended, std::ios::app) << "mended";
  const Outcome again = Program(Arguments{mended} + job(dir, "mendable", 2, 3)).wait();
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("it begins with the changed program"));
  const Outcome first = Program(Arguments{mended} + job(fresh, "mendable", 2, 3)).wait();
  EXPECT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_EQ(digest_of(dir), digest_of(fresh));
}

// A run whose model is wrong everywhere is not tried again and again.
TEST_F(OddModels, ModelsThatThrowOrCrash_AreRefusedInALine) {
  refused("picky", "the model failed while checking the model's options: ", true);
  refused(
      "unbuilt",
      "the model failed while building the model: an exception of an unknown type: look at the model unbuilt",
      true);
  refused("crashing",
          "ended by signal 11 while it was asked for its model and data: look at the model and the data set",
          true);
  refused("throwing", "LibTorch failed while computing a micro-batch: ", false);
  refused("no-evaluation", "the model failed while evaluating: only half a batch: look at the model", false);
}

}  // namespace
}  // namespace rekindle::process_test
