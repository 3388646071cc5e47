#include "model/job_config.hpp"

#include "base/text.hpp"
#include "protocol/training.hpp"

namespace rekindle::model {

using protocol::Job;

ModelConfig model_config(const Job& job, int channels, const MoreRows& more) {
  ModelConfig config;
  config.more_models = more.models;
  config.model = job.task.model;
  config.classes = static_cast<int>(job.task.classes);
  config.channels = channels;
  config.image_size = static_cast<int>(job.task.image_size);
  if (job.task.dropout >= 0) config.dropout = job.task.dropout;
  config.groups = {job.no_decay, job.lr_scale};
  config.average = job.ema;
  config.counts_updates = job.clip_norm > 0;
  config.needs_accuracy = !job.best_metric.empty() && !job.best_metric.ends_with("loss");
  config.bf16 = job.precision == "bf16";
  config.micro_batches = static_cast<int>(job.micro_batches);
  if (job.task.layers > 0) config.layers = static_cast<int>(job.task.layers);
  if (job.task.heads > 0) config.heads = static_cast<int>(job.task.heads);
  if (job.task.width > 0) config.width = static_cast<int>(job.task.width);
  if (job.task.context > 0) config.context = static_cast<int>(job.task.context);
  config.own_options = task::own_options(job.task.model_options);
  config.seed = job.seed;
  config.optimizer = protocol::optimizer_options(job);
  config.label_smoothing = job.task.label_smoothing;
  config.tf32 = job.precision == "tf32";
  config.device = job.device;
  config.threads = static_cast<int>(job.threads);
  return config;
}

Status complete_from_data(Job& job, const data::DatasetInfo& info) {
  if (job.task.classes == 0) job.task.classes = static_cast<std::uint64_t>(info.classes);
  task::choose_image_size(job.task, info.image_size);
  if (info.samples == data::SampleKind::kText && job.task.context != static_cast<std::uint64_t>(info.context))
    return fail(ExitCode::kUsage,
                str("--context ", job.task.context, " is not that of the data set ", job.task.dataset),
                str("use --context ", info.context));
  if (info.image_size > 0 && job.task.image_size != static_cast<std::uint64_t>(info.image_size))
    return fail(ExitCode::kUsage,
                str("--image-size ", job.task.image_size, " is not that of the data set ", job.task.dataset),
                str("use --image-size ", info.image_size, ", or leave it out"));
  return {};
}

Samples samples_of(const data::Batch& batch) {
  return {.images = batch.images, .tokens = batch.tokens, .labels = batch.labels};
}

Result<std::unique_ptr<data::Dataset>> open_data(const Job& job, const MoreRows& more) {
  return data::open_dataset(
      job.task.dataset, job.task.data,
      {.context = static_cast<int>(job.task.context), .skip_corrupt = job.task.skip_corrupt}, more.datasets);
}

}  // namespace rekindle::model
