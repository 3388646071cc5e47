// Training of an image classifier: a data set, its loader and a replica of the model.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "protocol/job.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

// Errors (kConfig): data that are not the run's, a model that cannot be built.
Result<std::unique_ptr<trainer::Task>> make_image_task(const protocol::Job& job);

}  // namespace rekindle::model
