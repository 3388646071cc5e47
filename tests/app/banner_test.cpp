#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/banner.hpp"

namespace rekindle::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

LocalOptions vgg() {
  LocalOptions options;
  options.run_dir = "/runs/first";
  options.parameters = 128807306;
  options.job.train_samples = 5000;
  options.job.test_samples = 1000;
  options.job.epochs = 2;
  options.job.steps = 79;
  return options;
}

TEST(Banner, SaysWhatTheRunWillDo) {
  EXPECT_EQ(
      banner(vgg(), 2),
      "model      vgg11, 128.8 million parameters; sgd, learning rate 0.001\n"
      "data       cifar10: 5000 training and 1000 test images, at 224 x 224 pixels\n"
      "length     79 steps (2 epochs); a batch of 128 images in 16 micro-batches\n"
      "trainers   2 trainers on cpu, 1 thread each\n"
      "written to /runs/first: checkpoints at the end and at a stop, every 10min; metrics.jsonl, logs/");
}

TEST(Banner, StepsAreEpochsToo) {
  LocalOptions options = vgg();
  options.job.epochs = 0;
  options.job.steps = 10;
  EXPECT_THAT(banner(options, 1), HasSubstr("10 steps (0.256 epochs); "));
}

TEST(Banner, SaysHowManyTrainersWillIdleAndWhy) {
  LocalOptions options = vgg();
  EXPECT_THAT(banner(options, 16), Not(HasSubstr("idle")));
  options.job.trainers_per_worker = 4;
  EXPECT_THAT(banner(options, 5),
              HasSubstr("\nwarning: 4 of the 20 trainers will idle: a batch has 16 micro-batches "
                        "(--micro-batches), and a trainer computes at least one"));
}

TEST(Crowding, WarnsOfMoreThreadsThanProcessors) {
  LocalOptions options = vgg();
  options.workers = 100;
  EXPECT_THAT(
      crowding(options, 2),
      ElementsAre(
          "warning: 100 trainers of 1 thread share 2 processors: more than 2 at once will not be faster"));
  options.workers = 2;
  EXPECT_THAT(crowding(options, 2), IsEmpty());
  options.job.threads = 2;
  EXPECT_THAT(crowding(options, 2),
              ElementsAre(HasSubstr("2 trainers of 2 threads share 2 processors: more than 1 ")));
  ::setenv("SLURM_JOB_NUM_NODES", "4", 1);
  EXPECT_THAT(crowding(options, 2),
              ElementsAre(HasSubstr("warning: this job has 4 nodes, and this run uses one of them")));
  ::unsetenv("SLURM_JOB_NUM_NODES");
  EXPECT_THAT(crowding(options, 32),
              ElementsAre("this run uses 4 of 32 processors: more --workers use more, and change no bit "
                          "(--threads does)"));
  EXPECT_THAT(crowding(options, 15), IsEmpty());
  options.job.device = "cuda";
  EXPECT_THAT(crowding(options, 2), IsEmpty());
}

}  // namespace
}  // namespace rekindle::app
