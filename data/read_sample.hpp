// One sample of a data set, checked. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "data/dataset.hpp"

namespace rekindle::data {

// Dataset::read(), and a look at what it wrote: a label or a token that is none of the data set's classes is
// an error. An error without a kind gets kDamage: with kOther a trainer would end, and the next one would
// fail at the same sample.
Status read_sample(const Dataset& dataset, Split split, std::size_t index, const TransformConfig& config,
                   std::uint64_t key, Batch& batch, std::size_t place);

}  // namespace rekindle::data
