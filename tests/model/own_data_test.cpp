// Data sets of other programs, and what a job says about them.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "model/evaluation.hpp"
#include "model/model_task.hpp"

namespace rekindle::model {
namespace {

using data::DatasetInfo;

// Zeros, and in images of sample 5 one number.
class Blank final : public data::Dataset {
 public:
  explicit Blank(DatasetInfo info) : info_(std::move(info)) {}
  const DatasetInfo& info() const override { return info_; }
  Status read(data::Split, std::size_t index, const data::TransformConfig&, std::uint64_t, data::Batch& batch,
              std::size_t place) const override {
    if (index == 5 && !batch.images.empty()) data::image_of(batch, place).back() = number;
    return {};
  }

  static inline float number = 0;

 private:
  const DatasetInfo info_;
};

const data::DatasetRow kSized = {"sized",
                                 "images of 8 pixels a side",
                                 data::SampleKind::kImages,
                                 data::Augment::kOff,
                                 [](const auto&, const auto&) -> Result<std::unique_ptr<data::Dataset>> {
                                   return std::make_unique<Blank>(DatasetInfo{.kind = "sized",
                                                                              .channels = 1,
                                                                              .classes = 10,
                                                                              .image_size = 8,
                                                                              .train_count = 8,
                                                                              .test_count = 8,
                                                                              .content_hash = "1"});
                                 },
                                 nullptr};
const data::DatasetRow kShort = {
    "short",
    "texts of 4 tokens",
    data::SampleKind::kText,
    data::Augment::kOff,
    [](const auto&, const auto&) -> Result<std::unique_ptr<data::Dataset>> {
      return std::make_unique<Blank>(DatasetInfo{.kind = "short",
                                                 .samples = data::SampleKind::kText,
                                                 .context = 4,
                                                 .classes = 10,
                                                 .train_count = 8,
                                                 .test_count = 8,
                                                 .content_hash = "1"});
    },
    nullptr};
const data::DatasetRow* const kRows[] = {&kSized, &kShort};
const MoreRows kMore = {.datasets = kRows};

// Without an image size, which is the data set's then.
protocol::Job job_on_images() {
  protocol::Job job;
  job.task.model = "mnist-cnn";
  job.task.dataset = "sized";
  job.task.image_size = 0;
  return job;
}

// With a larger one, read() would fill the memory of the first samples alone.
TEST(OwnData, ImageSizeOfTheDataSet_IsTheDefault_AndAnotherOneIsRefused) {
  protocol::Job job = job_on_images();
  const auto described = describe_with_data(job, kMore);
  ASSERT_TRUE(described) << described.error().line();
  EXPECT_EQ(described->data.image_size, 8);
  job.task.image_size = 8;
  EXPECT_EQ(described->state.tensors, describe(job, 1)->tensors);
  job.task.image_size = 28;
  const auto other = describe_with_data(job, kMore);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ExitCode::kUsage);
  EXPECT_EQ(other.error().line(),
            "--image-size 28 is not that of the data set sized: use --image-size 8, or leave it out");
}

std::string refused_evaluation(const protocol::Job& job) {
  const auto evaluated = evaluate(
      job, {}, 4, [](std::size_t, std::size_t) {}, kMore);
  return evaluated ? "" : evaluated.error().line();
}

TEST(OwnData, EvaluationWithAnotherImageSize_Refused) {
  protocol::Job job = job_on_images();
  job.task.image_size = 28;
  const std::string what = "--image-size 28 is not that of the data set sized: ";
  EXPECT_EQ(refused_evaluation(job), what + "use --image-size 8, or leave it out");
  job.task.data_hash = "of a checkpoint";
  EXPECT_EQ(refused_evaluation(job), what + "evaluate on data of the size that the model was trained for");
}

// The memory of a batch has the data's context, and the model would take it for other samples.
TEST(OwnData, AnotherContext_RefusedInARunAndInAnEvaluation) {
  protocol::Job job;
  job.task.model = "gpt";
  job.task.dataset = "short";
  job.task.layers = job.task.heads = 1;
  job.task.width = 8;
  job.task.context = 2;
  const std::string line = "--context 2 is not that of the data set short: ";
  const auto described = describe_with_data(job, kMore);
  ASSERT_FALSE(described);
  EXPECT_EQ(described.error().code, ExitCode::kUsage);
  EXPECT_EQ(described.error().line(), line + "use --context 4");
  EXPECT_EQ(refused_evaluation(job), line + "use --context 4");
  job.task.data_hash = "of a checkpoint";
  EXPECT_EQ(refused_evaluation(job), line + "evaluate on data of the size that the model was trained for");
  job.task.context = 4;
  EXPECT_TRUE(describe_with_data(job, kMore));
}

// A person can look at the sample then, and need not guess a rate.
TEST(OwnData, LossThatIsNotFinite_TheSampleWithSuchANumberIsNamed) {
  start_logging("test", FilePath(), LogLevel::kWarning);
  protocol::Job job = job_on_images();
  job.task.image_size = 8;
  job.batch_size = 8;
  job.micro_batches = 1;
  const auto said_with = [&](float number) {
    Blank::number = number;
    const auto task = std::move(make_model_task(job, kMore).value());
    std::vector<float> gradient(task->gradient_floats());
    task->expect_steps(0, {0}, {0});
    testing::internal::CaptureStderr();
    const std::atomic<bool> go_on{false};
    const auto result = task->train(0, 0, gradient, go_on);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(result) << result.error().line();
    EXPECT_EQ(result && std::isfinite(result->loss), number == 0);
    task->end_of_steps();
    return said;
  };
  EXPECT_EQ(said_with(0).find("training sample"), std::string::npos);
  const std::string said = said_with(std::numeric_limits<float>::quiet_NaN());
  Blank::number = 0;
  EXPECT_NE(
      said.find("training sample 5 has the value nan, and the loss of its micro-batch (0 of step 0) is not "
                "finite"),
      std::string::npos)
      << said;
}

}  // namespace
}  // namespace rekindle::model
