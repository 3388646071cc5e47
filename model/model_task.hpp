// Training of a model in C++: a data set, its loader and a replica of the model.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "data/dataset.hpp"
#include "model/model.hpp"
#include "model/models.hpp"
#include "protocol/job.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

// Rows beside the built-in ones. Their owner keeps them longer than any task.
struct MoreRows {
  ModelRows models = {};
  data::DatasetRows datasets = {};
};

// Errors (kConfig): data that are not the run's, a model that cannot be built.
Result<std::unique_ptr<trainer::Task>> make_model_task(const protocol::Job& job, const MoreRows& more = {});

// The state of such a task, without data. `channels`: of the images. Errors as above.
Result<StateDescription> describe(const protocol::Job& job, int channels, const MoreRows& more = {});

struct TaskDescription {
  data::DatasetInfo data;
  StateDescription state;
};
// The same with the job's data set, which is opened. A job without classes or an image size has those of the
// data set.
Result<TaskDescription> describe_with_data(protocol::Job job, const MoreRows& more = {});

}  // namespace rekindle::model
