// Training of an image classifier: a data set, its loader and a replica of the model.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "protocol/job.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

// Errors (kConfig): data that are not the run's, a model that cannot be built.
Result<std::unique_ptr<trainer::Task>> make_model_task(const protocol::Job& job);

// The tensors of the state of such a task, without data. `channels`: of the images. Errors as above.
Result<checkpoint::StateSpec> describe(const protocol::Job& job, int channels);

}  // namespace rekindle::model
