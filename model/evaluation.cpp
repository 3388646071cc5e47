#include "model/evaluation.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "checkpoint/initial_state.hpp"
#include "data/test_reader.hpp"
#include "model/job_config.hpp"
#include "model/metrics.hpp"

namespace rekindle::model {
namespace {

using protocol::Job;
using trainer::MetricSum;

// Only what an answer of the model depends on.
void forget_training(Job& job) {
  job.optimizer = "sgd";
  job.nesterov = false;
  job.momentum = job.dampening = job.ema = job.clip_norm = 0;
  job.no_decay.clear();
  job.lr_scale.clear();
}

// Class numbers of other data need not mean what they meant in training.
Status check_classes(const Job& job, const data::DatasetInfo& info) {
  const auto classes = static_cast<std::uint64_t>(info.classes);
  if (classes == job.task.classes || (classes < job.task.classes && info.content_hash == job.task.data_hash))
    return {};
  return fail(
      ExitCode::kConfig,
      str("the data in ", job.task.data, " have ", info.classes, " classes, the model ", job.task.classes),
      "evaluate on data with the classes that the model was trained for");
}

// The options of a checkpoint's model cannot be given: other data can.
Status fit(Job& job, const data::DatasetInfo& info) {
  Status completed = complete_from_data(job, info);
  if (completed || job.task.data_hash.empty()) return completed;
  Error error = std::move(completed.error());
  error.code = ExitCode::kConfig;
  error.hint = "evaluate on data of the size that the model was trained for";
  return forward_error(std::move(error));
}

Status load(Replica& replica, const TensorsToEvaluate& given, const Job& job, const data::DatasetInfo& info) {
  const checkpoint::State state = replica.state();
  const checkpoint::StateSpec model = checkpoint::spec_of(state);
  checkpoint::TensorSource source = given.tensors;
  checkpoint::use_first_names(source.tensors, replica.other_names());
  if (const auto other = checkpoint::other_head(source.tensors, model))
    return fail(
        ExitCode::kConfig,
        str("tensor ", other->ours.name, " is ", checkpoint::shape_text(other->theirs), " in ", given.name,
            ", and ", checkpoint::shape_text(other->ours), " for the classes of the data in ", job.task.data),
        "evaluate on data with the classes that the model was trained for");
  auto chosen = checkpoint::choose_initial(source.tensors, model, false, given.name, replica.other_names());
  if (!chosen) {
    chosen.error().hint = "it must be of the model that the options or the checkpoint name";
    if (info.samples == data::SampleKind::kImages)
      chosen.error().hint +=
          str(", for images with ", counted(static_cast<std::uint64_t>(info.channels), "channel"), " as in ",
              job.task.data);
    return forward_error(chosen.error());
  }
  REKINDLE_TRY(const checkpoint::Tensors read, checkpoint::read_tensors(source, *chosen));
  for (const checkpoint::Tensor& to : state) {
    for (const checkpoint::Tensor& from : read.state) {
      if (from.spec.name == to.spec.name) std::memcpy(to.bytes.data(), from.bytes.data(), to.bytes.size());
    }
  }
  return replica.upload();
}

void add(MetricSum& sum, const MetricSum& more) {
  sum.sum += more.sum;
  sum.count += more.count;
}

void add(Evaluation& evaluation, const Answers& answers, const data::Batch& batch) {
  add(evaluation.sums.loss, answers.sums.loss);
  for (std::size_t i = 0; i < answers.sums.metrics.size(); ++i)
    add(evaluation.sums.metrics.at(i), answers.sums.metrics[i]);
  if (answers.predicted.empty()) evaluation.classes.clear();
  if (evaluation.classes.empty()) return;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == data::kNoLabel) continue;
    ClassCount& of = evaluation.classes.at(static_cast<std::size_t>(batch.labels[i]));
    ++of.count;
    if (answers.predicted.at(i) == batch.labels[i]) ++of.correct;
  }
}

}  // namespace

Result<Evaluation> evaluate(Job job, const TensorsToEvaluate& given, std::size_t batch,
                            const OnProgress& on_progress, const MoreRows& more) {
  forget_training(job);
  REKINDLE_TRY(const std::unique_ptr<data::Dataset> dataset, open_data(job, more));
  Evaluation evaluation;
  evaluation.data = dataset->info();
  const data::DatasetInfo& info = evaluation.data;
  REKINDLE_CHECK(fit(job, info));
  REKINDLE_CHECK(check_classes(job, info));
  if (info.test_count == 0)
    return fail(ExitCode::kConfig, str("the data in ", job.task.data, " have no test samples"),
                "evaluate needs a test set");
  const ModelConfig config = model_config(job, info.channels, more);
  REKINDLE_TRY(const std::unique_ptr<Replica> replica, Replica::make(config));
  REKINDLE_CHECK(load(*replica, given, job, info));
  evaluation.metrics = metrics_of(info.samples, config.classes);
  evaluation.sums.metrics.resize(evaluation.metrics.size());
  if (info.samples == data::SampleKind::kImages && !evaluation.metrics.empty())
    evaluation.classes.resize(static_cast<std::size_t>(info.classes));
  const std::atomic<bool> go_on{false};
  data::TestReader reader(*dataset, config.image_size, job.threads > 1 ? static_cast<int>(job.threads) : 0);
  for (std::size_t first = 0; first < info.test_count; first += batch) {
    REKINDLE_TRY(const data::Batch samples, reader.read(first, std::min(batch, info.test_count - first)));
    REKINDLE_TRY(
        const Answers answers,
        replica->evaluate(samples_of(samples), stream_key(job.seed, Draws::kEvaluate, {first}), go_on));
    add(evaluation, answers, samples);
    on_progress(std::min(first + batch, info.test_count), info.test_count);
  }
  evaluation.skipped = dataset->take_skipped();
  return evaluation;
}

}  // namespace rekindle::model
