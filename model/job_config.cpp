#include "model/job_config.hpp"

#include "protocol/training.hpp"

namespace rekindle::model {

using protocol::Job;

ModelConfig model_config(const Job& job, int channels, const MoreRows& more) {
  ModelConfig config;
  config.more_models = more.models;
  config.model = job.model;
  config.classes = static_cast<int>(job.classes);
  config.channels = channels;
  config.image_size = static_cast<int>(job.image_size);
  if (job.dropout >= 0) config.dropout = job.dropout;
  config.groups = {job.no_decay, job.lr_scale};
  config.average = job.ema;
  config.counts_updates = job.clip_norm > 0;
  config.bf16 = job.precision == "bf16";
  config.micro_batches = static_cast<int>(job.micro_batches);
  if (job.layers > 0) config.layers = static_cast<int>(job.layers);
  if (job.heads > 0) config.heads = static_cast<int>(job.heads);
  if (job.width > 0) config.width = static_cast<int>(job.width);
  if (job.context > 0) config.context = static_cast<int>(job.context);
  config.own_options = protocol::own_options(job.model_options);
  config.seed = job.seed;
  config.optimizer = protocol::optimizer_options(job);
  config.label_smoothing = job.label_smoothing;
  config.tf32 = job.precision == "tf32";
  config.device = job.device;
  config.threads = static_cast<int>(job.threads);
  return config;
}

Samples samples_of(const data::Batch& batch) {
  return {.images = batch.images, .tokens = batch.tokens, .labels = batch.labels};
}

Result<std::unique_ptr<data::Dataset>> open_data(const Job& job, const MoreRows& more) {
  return data::open_dataset(job.dataset, job.data,
                            {.context = static_cast<int>(job.context), .skip_corrupt = job.skip_corrupt},
                            more.datasets);
}

}  // namespace rekindle::model
