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

// Gives a job without classes or an image size those of its data set. Errors (kUsage): the context or the
// image size is not that of the data set.
Status complete_from_data(protocol::Job& job, const data::DatasetInfo& info);

// A view of the batch.
Samples samples_of(const data::Batch& batch);

}  // namespace rekindle::model
