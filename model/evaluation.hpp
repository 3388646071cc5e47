// The evaluation of a model outside of a run: its tensors come from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"
#include "data/dataset.hpp"
#include "model/model_task.hpp"
#include "protocol/job.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

struct ClassCount {
  std::uint64_t count = 0, correct = 0;  // test samples
};

struct Evaluation {
  data::DatasetInfo data;
  std::vector<std::string> metrics;
  trainer::EvaluationResult sums;         // over the whole test set; the metrics in the order of `metrics`
  std::vector<ClassCount> classes = {};   // of images: for each class of the data set
  std::vector<std::string> skipped = {};  // data::Dataset::take_skipped()
};

struct TensorsToEvaluate {
  checkpoint::TensorSource tensors;  // parameters and buffers, and any of an optimizer, which are not used
  std::string name;                  // in errors
};

// Evaluates the model of `job` on its data set's test samples, `batch` at a time. After each batch,
// `on_progress` gets how many samples are done, and how many there are. A job without classes or an image
// size has those of the data set. Errors (ExitCode::kConfig): the first tensor that is not the model's; data
// of other classes; no test samples; a sample that cannot be read. (kUsage, of a job with a data_hash
// kConfig): a context or an image size that is not the data's.
using OnProgress = std::function<void(std::size_t done, std::size_t of)>;
Result<Evaluation> evaluate(protocol::Job job, const TensorsToEvaluate& given, std::size_t batch,
                            const OnProgress& on_progress, const MoreRows& more = {});

}  // namespace rekindle::model
