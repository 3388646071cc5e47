// What a job says about the update, for tasks without LibTorch.
#pragma once

#include "base/result.hpp"
#include "protocol/job.hpp"
#include "trainer/state_layout.hpp"
#include "trainer/update_plan.hpp"

namespace rekindle::trainer {

// Errors: those of optim::make_groups().
Result<UpdateOptions> update_options(const protocol::Job& job, const StateLayout& layout);

}  // namespace rekindle::trainer
