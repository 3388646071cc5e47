// `rekindle evaluate`: what a run measured itself is measured again, from its directory, a checkpoint and a
// file.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "harness.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

using nlohmann::json;

class Evaluate : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return scratch_ / name; }

  fs::path finished(const std::string& name, const Arguments& more) const {
    const Outcome outcome = run(mnist_run(at(name), 1, 6) + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return at(name);
  }

  // A run in "run", with the data set "images".
  void train_on_images() const {
    ASSERT_EQ(run({"make-data", "image-folder", at("images"), "--samples", "40"}).exit_code, 0);
    const Outcome trained =
        run({"local", "--run-dir", at("run"), "--model", "resnet18", "--image-size", "32", "--dataset",
             "image-folder", "--data", at("images"), "--steps", "1", "--batch-size", "8"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }

  static json answer(const fs::path& source, const Arguments& more = {}) {
    const Outcome outcome = run(Arguments{"evaluate", source, "--json"} + more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    json parsed = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << outcome.out;
    return parsed;
  }

  static void expect_equal(const json& one, const json& other) {
    EXPECT_NEAR(one.value("loss", -1.0), other.value("loss", -2.0), 1e-5);
    for (const char* name : {"accuracy", "top5", "test_count"})
      EXPECT_EQ(one.value(name, -1.0), other.value(name, -2.0)) << name;
  }

  static void refused(const Arguments& arguments, int exit_code, const std::string& what) {
    const Outcome outcome = run(Arguments{"evaluate"} + arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << what << "\nsaid: " << outcome.err;
    EXPECT_EQ(times_in(outcome.err, "\n"), 1U) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  Scratch scratch_;
};

TEST_F(Evaluate, MeasuresWhatTheRunMeasured) {
  const fs::path dir = finished("run", {"--ema", "0.5"});
  const auto own = run::last_evaluation(run::Layout(dir));
  ASSERT_TRUE(own);
  const json of_run = answer(dir);
  expect_equal(of_run, {{"loss", own->at("test_loss")},
                        {"accuracy", own->at("test_accuracy")},
                        {"top5", own->at("test_top5")},
                        {"test_count", own->at("test_count")}});
  EXPECT_EQ(of_run.value("step", 0), 6);
  EXPECT_TRUE(of_run.value("ema", false));
  EXPECT_EQ(of_run.value("digest", "") + "\n", digest_of(dir));

  const json raw = answer(dir, {"--raw"});
  EXPECT_FALSE(raw.value("ema", true));
  EXPECT_NE(raw.at("loss"), of_run.at("loss"));

  for (const auto& checkpoint : fs::directory_iterator(dir / "checkpoints"))
    expect_equal(answer(checkpoint.path(), {"--batch-size", "7", "--threads", "1"}), of_run);

  const Arguments of_file = {"--model", "mnist-cnn", "--data", mnist_data()};
  for (const char* name : {"weights.safetensors", "weights.h5"}) {
    ASSERT_EQ(run({"export", dir, at(name)}).exit_code, 0);
    expect_equal(answer(at(name), of_file), of_run);
  }
  ASSERT_EQ(run({"export", dir, at("raw.safetensors"), "--raw"}).exit_code, 0);
  expect_equal(answer(at("raw.safetensors"), of_file), raw);

  ASSERT_EQ(run({"export", dir, at("all.safetensors"), "--with-optimizer"}).exit_code, 0);
  const json averaged = answer(at("all.safetensors"), of_file);
  expect_equal(averaged, of_run);
  EXPECT_TRUE(averaged.value("ema", false));
  expect_equal(answer(at("all.safetensors"), of_file + Arguments{"--raw"}), raw);
}

TEST_F(Evaluate, EachClassHasItsShare) {
  const fs::path dir = finished("run", {});
  const json result = answer(dir, {"--per-class"});
  double correct = 0, count = 0;
  ASSERT_EQ(result.at("classes").size(), 10U);
  for (const json& each : result.at("classes")) {
    count += each.at("count").get<double>();
    if (each.at("count") != 0) correct += each.at("count").get<double>() * each.at("accuracy").get<double>();
  }
  EXPECT_EQ(count, result.value("test_count", 0.0));
  EXPECT_NEAR(correct / count, result.value("accuracy", 0.0), 1e-9);

  const Outcome shown = run({"evaluate", dir, "--per-class"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find(", step 6, on "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("loss "), std::string::npos) << shown.out;
  EXPECT_EQ(times_in(shown.out, "\n"), 13U) << shown.out;
}

TEST_F(Evaluate, WhatDoesNotFit_IsRefusedInOneLine) {
  const fs::path dir = finished("run", {});
  const fs::path weights = at("weights.safetensors");
  ASSERT_EQ(run({"export", dir, weights}).exit_code, 0);
  refused({at("nothing")}, 78, "no such file or directory");
  refused({scratch_.path()}, 78, "is not a run directory, but has runs inside");
  refused({weights}, 64, "add --model NAME");
  refused({weights}, 64, "of a script: evaluate its run, or load the file in Python");
  refused({weights, "--model", "mnist-cnn"}, 64, "add --data");
  refused({weights, "--model", "mnist-cn", "--data", mnist_data()}, 64, "did you mean mnist-cnn?");
  refused({weights, "--model", "resnet18", "--data", cifar_data()}, 78,
          "tensor conv1.weight is float32 [32, 1, 3, 3] in ");
  refused({weights, "--model", "mnist-cnn", "--data", mnist_data(), "--step", "6"}, 64, "--step with a file");
  for (const auto& checkpoint : fs::directory_iterator(dir / "checkpoints"))
    refused({checkpoint.path(), "--step", "7"}, 64, "--step 7 with the checkpoint of step ");
  refused({dir, "--threads", "3000"}, 64, "--threads: '3000' is not a whole number from 1 to 1024");
  refused({dir, "--model", "mnist-cnn"}, 64, "leave it out");
  refused({dir, "--step", "5"}, 78, "there is no checkpoint of step 5");
  refused({dir, "--data", at("nowhere")}, 78, "nowhere");
  refused({dir, "--dataset", "cifar10", "--data", cifar_data()}, 78, "tensor conv1.weight is float32 ");
}

TEST_F(Evaluate, OfText_HasNoClasses) {
  ASSERT_EQ(run({"make-data", "text", at("text"), "--samples", "64"}).exit_code, 0);
  const Outcome trained =
      run({"local", "--run-dir", at("gpt"), "--model", "gpt", "--layers", "1", "--heads", "1", "--width",
           "16", "--context", "32", "--data", at("text"), "--steps", "2", "--batch-size", "8"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto own = run::last_evaluation(run::Layout(at("gpt")));
  ASSERT_TRUE(own);
  const json result = answer(at("gpt"));
  EXPECT_NEAR(result.value("loss", 0.0), own->value("test_loss", 1.0), 1e-5);
  EXPECT_EQ(result.value("accuracy", 0.0), own->value("test_accuracy", 1.0));
  refused({at("gpt"), "--per-class"}, 64, "--per-class on samples that have no class");
}

TEST_F(Evaluate, WeightsThatAreNotFinite_GiveNoNumber_AndNoError) {
  const fs::path weights = at("weights.safetensors");
  ASSERT_EQ(run({"export", finished("run", {}), weights}).exit_code, 0);
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write("\xff\xff\xff\xff", 4);  // the last weight: NaN
  file.close();
  const Arguments of_file = {"--model", "mnist-cnn", "--data", mnist_data()};
  const json result = answer(weights, of_file);
  EXPECT_TRUE(result.at("loss").is_null()) << result;
  EXPECT_TRUE(result.at("accuracy").is_number()) << result;
  const Outcome shown = run(Arguments{"evaluate", weights} + of_file);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("loss nan, accuracy "), std::string::npos) << shown.out;
}

TEST_F(Evaluate, ChangedDataAreSaid_AndDataOfOtherClassesRefused) {
  train_on_images();
  EXPECT_EQ(run({"evaluate", at("run")}).err.find("warning"), std::string::npos);
  const fs::path classes = at("images") / "train";
  fs::copy_file(classes / "n00000000/images/n00000000_0.JPEG", classes / "n00000000/images/more.JPEG");
  const std::string warning = "are not what the run was trained with";
  const Outcome changed = run({"evaluate", at("run")});
  EXPECT_EQ(changed.exit_code, 0);
  EXPECT_NE(changed.err.find(warning), std::string::npos) << changed.err;
  const Outcome other = run({"evaluate", at("run"), "--data", at("images")});
  EXPECT_EQ(other.err.find(warning), std::string::npos) << other.err;

  for (const char* name : {"n00000000", "n00000001"}) {
    fs::create_directories(at("two"));
    fs::copy(classes / name, at("two") / name, fs::copy_options::recursive);
  }
  ASSERT_EQ(run({"export", at("run"), at("weights.safetensors")}).exit_code, 0);
  refused({at("weights.safetensors"), "--model", "resnet18", "--image-size", "32", "--dataset",
           "image-folder", "--data", at("two")},
          78, "tensor fc.weight is [10, 512] in ");
}

TEST_F(Evaluate, ImagesThatCannotBeDecoded_AreCounted) {
  train_on_images();
  EXPECT_FALSE(answer(at("run")).contains("skipped"));
  EXPECT_EQ(answer(at("run"), {"--skip-corrupt"}).at("skipped"), 0);
  fs::copy(at("images"), at("damaged"), fs::copy_options::recursive);
  for (const char* image : {"val_2.JPEG", "val_5.JPEG"})
    fs::resize_file(at("damaged") / "val/images" / image, 200);
  const Arguments of_damaged = {"--data", at("damaged"), "--skip-corrupt"};
  const json result = answer(at("run"), of_damaged);
  EXPECT_EQ(result.at("skipped"), 2) << result;
  EXPECT_EQ(result.at("test_count"), 8) << result;
  const Outcome shown = run(Arguments{"evaluate", at("run")} + of_damaged);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("2 test images cannot be decoded, and others took their places"),
            std::string::npos)
      << shown.out;
}

}  // namespace
}  // namespace rekindle::process_test
