// Data sets of other programs, and what a job says about them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "model/evaluation.hpp"
#include "model/model_task.hpp"

namespace rekindle::model {
namespace {

using data::DatasetInfo;

class Blank final : public data::Dataset {
 public:
  explicit Blank(DatasetInfo info) : info_(std::move(info)) {}
  const DatasetInfo& info() const override { return info_; }
  Status read(data::Split, std::size_t, const data::TransformConfig&, std::uint64_t, data::Batch&,
              std::size_t) const override {
    return {};
  }

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

}  // namespace
}  // namespace rekindle::model
