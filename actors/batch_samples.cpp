#include "actors/batch_samples.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "data/loader.hpp"

namespace rekindle::actors {
namespace {

constexpr std::uint64_t kMostSamples = 10'000'000, kMostNamed = 1024;

}  // namespace

std::string samples_of(const protocol::Job& job, std::uint64_t step) {
  if (job.train_samples > kMostSamples)
    return str("its samples are not named: the data set has ", job.train_samples, ", more than ",
               kMostSamples);
  const data::SampleOrder order(job.seed, job.train_samples);
  std::string list = "its samples are";
  for (std::uint64_t i = 0; i < std::min(job.batch_size, kMostNamed); ++i)
    list += str(i == 0 ? " " : ", ", order.sample_at(step * job.batch_size + i));
  return job.batch_size > kMostNamed ? str(list, ", ... (", job.batch_size, " in all)") : list;
}

}  // namespace rekindle::actors
