// What a job says about its model and its data set.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "data/dataset.hpp"
#include "model/model.hpp"
#include "model/model_task.hpp"
#include "protocol/job.hpp"

namespace rekindle::model {

// `channels`: of the images; 0: text.
ModelConfig model_config(const protocol::Job& job, int channels, const MoreRows& more);

Result<std::unique_ptr<data::Dataset>> open_data(const protocol::Job& job, const MoreRows& more);

// A view of the batch.
Samples samples_of(const data::Batch& batch);

}  // namespace rekindle::model
