#include "protocol/job_reader.hpp"

#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

std::string refusal(const std::string& text) {
  const auto job = job_from_text(text, "FILE");
  if (job) return "";
  EXPECT_EQ(job.error().code, ExitCode::kConfig);
  return job.error().what;
}

std::string identity_refusal(const std::string& text) {
  const auto identity = identity_from_text(text, "FILE");
  return identity ? "" : identity.error().what;
}

TEST(JobReader, ReadsBackWhatAJobIsWrittenAs) {
  Job job;
  job.task.model = "mnist-cnn";
  job.lr = 0.25;
  job.earlier_rates = {{0, 1.0, 30, 0.1}};
  job.environment = {"OMP_NUM_THREADS=1"};
  const nlohmann::json written = job;
  const auto read = job_from_text(written.dump(), "FILE");
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_EQ(nlohmann::json(*read), written);
  const auto identity = identity_from_text(identity_of(job).dump(), "FILE");
  ASSERT_TRUE(identity) << identity.error().line();
  EXPECT_EQ(*identity, identity_of(job));
}

TEST(JobReader, WhatIsNotThere_IsAsInANewJob) {
  const auto job = job_from_text(R"({"seed":7,"lr":1,"later_option":[{}]})", "FILE");
  ASSERT_TRUE(job) << job.error().line();
  EXPECT_EQ(job->seed, 7U);
  EXPECT_EQ(job->lr, 1.0);
  EXPECT_EQ(job->batch_size, Job{}.batch_size);
}

TEST(JobReader, ARunTomlWithoutAFieldOfEveryRun_IsNamed) {
  Job job;
  job.steps = 5;
  const nlohmann::json complete = job;
  ASSERT_TRUE(job_of_run(complete, "FILE"));
  const auto refused = [](const nlohmann::json& object) {
    const auto read = job_of_run(object, "FILE");
    return read ? "" : read.error().what;
  };
  EXPECT_EQ(refused(nlohmann::json::object()), "FILE: field 'batch_size' is missing");
  for (const char* key : {"batch_size", "dataset", "image_size", "lr", "micro_batches", "model", "seed",
                          "steps", "train_samples", "weight_decay"}) {
    nlohmann::json less = complete;
    less.erase(key);
    EXPECT_EQ(refused(less), std::string("FILE: field '") + key + "' is missing");
  }
  nlohmann::json none = complete;
  none["steps"] = 0;
  EXPECT_EQ(refused(none), "FILE: field 'steps' cannot be 0");
  nlohmann::json other = complete;
  other["seed"] = "x";
  for (const nlohmann::json& damaged : {nlohmann::json::object(), none, other})
    EXPECT_EQ(job_of_run(damaged, "FILE").error().hint, kMendRunToml) << damaged;
  // A field of a later version may be missing.
  nlohmann::json earlier = complete;
  earlier.erase("skip_corrupt");
  EXPECT_EQ(refused(earlier), "");
}

TEST(JobReader, AFieldOfAnotherType_IsNamed) {
  EXPECT_EQ(refusal(R"({"model":5})"), "FILE: field 'model' is not a text");
  EXPECT_EQ(refusal(R"({"steps":-1})"),
            "FILE: field 'steps' is not a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(refusal(R"({"lr":"fast"})"), "FILE: field 'lr' is not a number");
  EXPECT_EQ(refusal(R"({"strict":0})"), "FILE: field 'strict' is not true or false");
  EXPECT_EQ(refusal(R"({"environment":[1]})"), "FILE: field 'environment' is not a list of texts");
  const std::string rate = R"({"earlier_rates":[{"since":0,"lr_step":30,"lr_gamma":0.1}]})";
  EXPECT_EQ(refusal(rate), "FILE: entry 1 of 'earlier_rates': field 'lr' is missing");
  EXPECT_EQ(identity_refusal(rate), "FILE: entry 1 of 'earlier_rates': field 'lr' is missing");
  EXPECT_EQ(identity_refusal(R"({"lr":[]})"), "FILE: field 'lr' is not a number");
  EXPECT_EQ(refusal("5"), "FILE: is not a JSON object");
}

// Schedules divide by these fields.
TEST(JobReader, ValuesThatNoRunHas_AreNamed) {
  EXPECT_EQ(refusal(R"({"batch_size":0})"), "FILE: field 'batch_size' cannot be 0");
  EXPECT_EQ(refusal(R"({"lr_step":0})"), "FILE: field 'lr_step' cannot be 0");
  EXPECT_EQ(refusal(R"({"micro_batches":3})"), "FILE: field 'micro_batches' cannot be 3");
  EXPECT_EQ(refusal(R"({"precision":"half"})"), "FILE: field 'precision' cannot be half");
  EXPECT_EQ(refusal(R"({"exchange":"gloo"})"), "FILE: field 'exchange' cannot be gloo");
  EXPECT_EQ(refusal(R"({"threads":4294967296})"), "FILE: field 'threads' cannot be 4294967296");
  EXPECT_EQ(refusal(R"({"earlier_rates":[{"since":0,"lr":1,"lr_step":0,"lr_gamma":0.1}]})"),
            "FILE: field 'lr_step' cannot be 0");
  Job job;
  job.train_samples = 0;
  EXPECT_EQ(epoch_of(job, 5), 0U);
  EXPECT_EQ(refusal(R"({"schedule":"cosinus"})"), "FILE: unknown schedule 'cosinus'");
  EXPECT_EQ(refusal(R"({"optimizer":"adan"})"), "FILE: unknown optimizer 'adan'");
  EXPECT_EQ(refusal(R"({"schedule":"multi-step","milestones":"x"})"),
            "FILE: --milestones x is not a list of epochs");
  EXPECT_NE(refusal(R"({"momentum":2})").find("--momentum 2 is out of range"), std::string::npos);
}

}  // namespace
}  // namespace rekindle::protocol
