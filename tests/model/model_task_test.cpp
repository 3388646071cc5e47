#include "model/model_task.hpp"

#include <filesystem>

#include "../temporary_directory.hpp"
#include "data/dataset.hpp"
#include "model/machine.hpp"
#include "replica_tools.hpp"
#include "trainer/numeric_check.hpp"

namespace rekindle::model {
namespace {

using trainer::check_numerics;
using trainer::Task;

class ModelTaskTest : public testing::Test {
 protected:
  ModelTaskTest() {
    job_.task.model = "mnist-cnn";
    job_.task.dataset = "mnist";
    job_.task.data = directory_.path().string();
    job_.task.image_size = 28;
    job_.batch_size = 8;
    job_.micro_batches = 2;
    EXPECT_TRUE(data::make_data("mnist", directory_.path(), 40, 1));
  }
  std::unique_ptr<Task> make() { return std::move(make_model_task(job_).value()); }
  std::string hash(Task& task) {
    gradient_.assign(task.gradient_floats(), std::numeric_limits<float>::quiet_NaN());
    const auto check = check_numerics(task, gradient_, kGoOn);
    EXPECT_TRUE(check) << check.error().line();
    EXPECT_EQ(check->mismatch, "");
    return check->hash;
  }
  static Hash128 digest_of(Task& task) { return checkpoint::state_digest(0, task.state()); }

  TemporaryDirectory directory_;
  protocol::Job job_;
  std::vector<float> gradient_;
};

TEST_F(ModelTaskTest, NumericCheck_OneHashAndTheStateStaysAsItIs) {
  const auto task = make();
  const Hash128 before = digest_of(*task);
  const std::string once = hash(*task);
  EXPECT_EQ(once, hash(*make()));
  EXPECT_EQ(digest_of(*task), before);
}

TEST_F(ModelTaskTest, MicroBatchAfterTheCheckIsAsWithoutIt) {
  const auto checked = make(), other = make();
  hash(*checked);
  const auto gradient_of = [](Task& task) {
    std::vector<float> gradient(task.gradient_floats());
    task.expect_steps(3, {1}, {1});
    EXPECT_TRUE(task.train(3, 1, gradient, kGoOn));
    task.end_of_steps();
    return gradient;
  };
  EXPECT_TRUE(same_bits(gradient_of(*checked), gradient_of(*other)));
}

TEST_F(ModelTaskTest, OtherDropout_OtherHash) {
  const std::string with = hash(*make());
  job_.task.dropout = 0;
  EXPECT_NE(hash(*make()), with);
}

TEST_F(ModelTaskTest, InitializeBringsBackTheInitialState) {
  const auto task = make();
  const Hash128 before = digest_of(*task);
  const std::vector<float> sum(task->gradient_floats(), 1.0F);
  task->update(0, sum, {.learning_rate = 0.5});
  ASSERT_TRUE(task->finish_update());
  EXPECT_NE(digest_of(*task), before);
  ASSERT_TRUE(task->initialize());
  EXPECT_EQ(digest_of(*task), before);
}

TEST_F(ModelTaskTest, GradientTensorsAreTheStatesParameters) {
  const auto task = make();
  const checkpoint::State state = task->state();
  const auto tensors = task->gradient_tensors();
  ASSERT_LT(tensors.size(), state.size()) << "there is an optimizer";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].name, state[i].spec.name);
    EXPECT_EQ(tensors[i].count * sizeof(float), state[i].bytes.size());
  }
}

TEST_F(ModelTaskTest, OtherDataThanTheRuns_Refused) {
  job_.task.data_hash = "0";
  const auto task = make_model_task(job_);
  ASSERT_FALSE(task);
  EXPECT_EQ(task.error().code, ExitCode::kConfig);
}

TEST(DescribeMachine, NamesTheProcessorAndTheLibraries) {
  const std::string text = describe_machine("");
  for (const char* part : {"LibTorch 2.", "oneDNN 3.", "MKL 20"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace rekindle::model
