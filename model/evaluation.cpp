#include "model/evaluation.hpp"

#include <algorithm>
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
  if (classes == job.classes || (classes < job.classes && info.content_hash == job.data_hash)) return {};
  return fail(ExitCode::kConfig,
              str("the data in ", job.data, " have ", info.classes, " classes, the model ", job.classes),
              "evaluate on data with the classes that the model was trained for");
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += str(text.empty() ? "[" : ", ", size);
  return text + "]";
}

std::string layer_of(const std::string& name) { return name.substr(0, name.rfind('.') + 1); }

// The last layer has a row for each class.
Status check_head(const TensorsToEvaluate& given, const checkpoint::StateSpec& model, const Job& job) {
  const checkpoint::StateSpec& theirs = given.tensors.tensors;
  const auto places = checkpoint::places_by_name(theirs);
  const auto is_parameter = [](const auto& tensor) { return tensor.role == checkpoint::Role::kParameter; };
  const auto last = std::find_if(model.rbegin(), model.rend(), is_parameter);
  for (const checkpoint::TensorSpec& tensor : model) {
    const auto found = places.find(tensor.name);
    if (!is_parameter(tensor) || layer_of(tensor.name) != layer_of(last->name) || found == places.end())
      continue;
    std::vector<std::int64_t> shape = theirs[found->second].shape;
    if (shape.size() != tensor.shape.size() || shape.empty() || shape[0] == tensor.shape[0]) continue;
    const std::string has = text_of(shape);
    shape[0] = tensor.shape[0];
    if (shape != tensor.shape) continue;
    return fail(ExitCode::kConfig,
                str("tensor ", tensor.name, " is ", has, " in ", given.name, ", and ", text_of(tensor.shape),
                    " for the classes of the data in ", job.data),
                "evaluate on data with the classes that the model was trained for");
  }
  return {};
}

Status load(Replica& replica, const TensorsToEvaluate& given, const Job& job) {
  const checkpoint::State state = replica.state();
  REKINDLE_CHECK(check_head(given, checkpoint::spec_of(state), job));
  auto chosen = checkpoint::choose_initial(given.tensors.tensors, checkpoint::spec_of(state), false,
                                           given.name, replica.other_names());
  if (!chosen) {
    chosen.error().hint = "it must be of the model that the options or the checkpoint name";
    return forward_error(chosen.error());
  }
  REKINDLE_TRY(const checkpoint::Tensors read, checkpoint::read_tensors(given.tensors, *chosen));
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
  if (evaluation.classes.empty()) return;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
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
  if (job.classes == 0) job.classes = static_cast<std::uint64_t>(info.classes);
  REKINDLE_CHECK(check_classes(job, info));
  if (info.test_count == 0)
    return fail(ExitCode::kConfig, str("the data in ", job.data, " have no test samples"),
                "evaluate needs a test set");
  const ModelConfig config = model_config(job, info.channels, more);
  REKINDLE_TRY(const std::unique_ptr<Replica> replica, Replica::make(config));
  REKINDLE_CHECK(load(*replica, given, job));
  evaluation.metrics = metrics_of(info.samples, config.classes);
  evaluation.sums.metrics.resize(evaluation.metrics.size());
  if (info.samples == data::SampleKind::kImages)
    evaluation.classes.resize(static_cast<std::size_t>(info.classes));
  data::TestReader reader(*dataset, config.image_size, static_cast<int>(job.threads) - 1);
  for (std::size_t first = 0; first < info.test_count; first += batch) {
    REKINDLE_TRY(const data::Batch samples, reader.read(first, std::min(batch, info.test_count - first)));
    REKINDLE_TRY(const Answers answers,
                 replica->evaluate(samples_of(samples), stream_key(job.seed, Draws::kEvaluate, {first})));
    add(evaluation, answers, samples);
    on_progress(std::min(first + batch, info.test_count), info.test_count);
  }
  evaluation.skipped = dataset->take_skipped();
  return evaluation;
}

}  // namespace rekindle::model
