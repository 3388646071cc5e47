// Which samples a step trains, for a person who looks for a bad one.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/job.hpp"

namespace rekindle::actors {

// "its samples are 7, 3, ...": numbers of the training set, the first 1024 of the batch. The order of an
// epoch is computed here, so the samples of a set with more than 10,000,000 are not named: a billion take
// half a minute and 4 GB, and a coordinator that is silent for so long is killed.
std::string samples_of(const protocol::Job& job, std::uint64_t step);

}  // namespace rekindle::actors
