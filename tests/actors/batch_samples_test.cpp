// The samples of the step at which a run is stuck.
#include <gtest/gtest.h>

#include <algorithm>

#include "actors/batch_samples.hpp"
#include "base/text.hpp"
#include "data/loader.hpp"

namespace rekindle::actors {
namespace {

protocol::Job job_of(std::uint64_t samples, std::uint64_t batch_size) {
  protocol::Job job;
  job.seed = 5;
  job.train_samples = samples;
  job.batch_size = batch_size;
  return job;
}

TEST(BatchSamples, AStep_TheNumbersOfItsSamples) {
  const data::SampleOrder order(5, 100);
  EXPECT_EQ(samples_of(job_of(100, 3), 7), str("its samples are ", order.sample_at(21), ", ",
                                               order.sample_at(22), ", ", order.sample_at(23)));
}

TEST(BatchSamples, ALargeBatch_ItsFirstSamples) {
  const std::string text = samples_of(job_of(100, 100000), 0);
  EXPECT_EQ(std::ranges::count(text, ','), 1024);
  EXPECT_TRUE(text.ends_with(", ... (100000 in all)")) << text;
}

// Computing the order of so many would need 400 GB.
TEST(BatchSamples, ASetOfManySamples_NotNamed) {
  EXPECT_EQ(samples_of(job_of(100'000'000'000, 4), 0),
            "its samples are not named: the data set has 100000000000, more than 10000000");
}

}  // namespace
}  // namespace rekindle::actors
