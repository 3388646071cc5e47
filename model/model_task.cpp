#include "model/model_task.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "data/loader.hpp"
#include "data/test_reader.hpp"
#include "model/ahead.hpp"
#include "model/job_config.hpp"
#include "model/machine.hpp"
#include "model/metrics.hpp"
#include "model/model.hpp"
#include "trainer/sample_wait.hpp"

namespace rekindle::model {
namespace {

using protocol::Job;
using trainer::EvaluationResult;
using trainer::GradientTensor;
using trainer::MicroBatchResult;

// While the test set is read, the thread that computes waits.
int test_threads(const Job& job) {
  return job.loader_threads > 0 ? static_cast<int>(job.loader_threads) + 1 : 0;
}

data::LoaderConfig loader_config(const Job& job) {
  data::LoaderConfig config;
  config.seed = job.seed;
  config.micro_batches = static_cast<int>(job.micro_batches);
  config.samples = static_cast<int>(job.batch_size / job.micro_batches);
  config.transform = {static_cast<int>(job.task.image_size),
                      data::augment_of(job.task.augment).value_or(data::Augment::kOff)};
  config.threads = static_cast<int>(job.loader_threads);
  return config;
}

// Of a micro-batch whose loss is not finite. The training may have diverged, so this is no error of the
// sample.
void log_sample_not_finite(const data::Batch& batch) {
  const auto* const found =
      std::ranges::find_if_not(batch.images, [](float value) { return std::isfinite(value); });
  if (found == batch.images.end()) return;
  const std::size_t place =
      static_cast<std::size_t>(found - batch.images.begin()) / (batch.images.size() / batch.samples.size());
  log_warning(str("training sample ", batch.samples[place], " has the value ", *found,
                  ", and the loss of its micro-batch (", batch.micro_batch, " of step ", batch.step,
                  ") is not finite"));
}

class ModelTask final : public trainer::Task {
 public:
  ModelTask(const Job& job, std::unique_ptr<data::Dataset> dataset, ModelConfig config,
            std::unique_ptr<Replica> replica)
      : seed_(job.seed),
        dataset_(std::move(dataset)),
        tests_(*dataset_, static_cast<int>(job.task.image_size), test_threads(job)),
        config_(std::move(config)),
        replica_(std::move(replica)),
        loader_(*dataset_, loader_config(job)),
        ahead_(loader_, replica_->place()) {}

  Status initialize() override { return replica_->initialize(); }
  device::Place place() const override { return replica_->place(); }
  checkpoint::State state() override { return replica_->state(); }
  Status download() override { return replica_->download(); }
  Status upload() override { return replica_->upload(); }
  Result<std::optional<Hash128>> digest() override { return replica_->digest(); }
  trainer::Arenas arenas() override { return replica_->arenas(); }

  std::size_t gradient_floats() const override { return replica_->layout().floats(); }
  std::vector<GradientTensor> gradient_tensors() const override {
    std::vector<GradientTensor> tensors;
    for (const trainer::TensorPlace& place : replica_->layout().tensors())
      tensors.push_back({place.spec.name, place.offset, place.floats});
    return tensors;
  }
  trainer::FloatRange parameter_floats() const override {
    return {replica_->layout().first_parameter_float(), replica_->layout().end_of_parameters()};
  }

  std::vector<std::string> metrics() const override {
    return metrics_of(dataset_->info().samples, config_.classes);
  }
  void expect_steps(std::uint64_t step, std::vector<int> all, std::vector<int> first) override {
    ahead_.forget();
    loader_.start(step, std::move(all), std::move(first));
  }
  void end_of_steps() override {
    ahead_.forget();
    loader_.stop();
  }

  Result<MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                 const std::atomic<bool>& aborted) override {
    const auto started = std::chrono::steady_clock::now();
    REKINDLE_TRY(const data::Batch* const batch, ahead_.next());
    // Samples of another micro-batch would be a wrong state that nobody notices.
    if (batch->micro_batch != micro_batch || batch->step != step)
      throw std::logic_error("the loader is out of step");
    const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - started;
    const std::uint64_t key =
        stream_key(seed_, Draws::kDropout, {step, static_cast<std::uint64_t>(micro_batch)});
    Samples samples = samples_of(*batch);
    samples.images = ahead_.images();
    samples.on_device = true;
    auto result = replica_->train(samples, key, gradient, aborted);
    const Status settled = replica_->settle();
    if (!result && result.error().kind != ErrorKind::kAborted) return result;  // it says more
    REKINDLE_CHECK(settled);
    if (result && !std::isfinite(result->loss)) log_sample_not_finite(*batch);
    ahead_.used();
    if (result) result->waited_ms = waited.count();
    return result;
  }

  Result<EvaluationResult> evaluate(std::uint64_t first, std::uint64_t count,
                                    const std::atomic<bool>& aborted) override {
    REKINDLE_TRY(const data::Batch batch, tests_.read(first, count, trainer::kSampleLook));
    REKINDLE_TRY(Answers answers, replica_->evaluate(samples_of(batch),
                                                     stream_key(seed_, Draws::kEvaluate, {first}), aborted));
    return std::move(answers.sums);
  }

  std::vector<std::string> take_skipped() override { return dataset_->take_skipped(); }

  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    replica_->update(first, sum, step);
  }
  Status finish_update() override { return replica_->finish_update(); }

  std::string fingerprint() const override { return numeric_fingerprint(config_, gpu()); }
  std::string describe_machine() const override { return model::describe_machine(gpu()); }

 private:
  std::string gpu() const { return replica_->place() ? replica_->place().device->name() : ""; }

  const std::uint64_t seed_;
  const std::unique_ptr<data::Dataset> dataset_;
  data::TestReader tests_;
  const ModelConfig config_;
  std::unique_ptr<Replica> replica_;
  data::Loader loader_;
  Ahead ahead_;
};

}  // namespace

Result<std::unique_ptr<trainer::Task>> make_model_task(const Job& job, const MoreRows& more) {
  if (!data::augment_of(job.task.augment))
    return fail(ExitCode::kConfig, str("run.toml has an unknown augmentation: '", job.task.augment, "'"),
                "was it changed by hand?");
  REKINDLE_TRY(std::unique_ptr<data::Dataset> dataset, open_data(job, more));
  // Gradients of other samples would be a wrong state that nobody notices.
  if (!job.task.data_hash.empty() && dataset->info().content_hash != job.task.data_hash) {
    return fail(ExitCode::kConfig,
                str("the data in ", job.task.data, " on ", host_name(), " are not this run's"),
                "every machine needs the files that the run was started with");
  }
  ModelConfig config = model_config(job, dataset->info().channels, more);
  REKINDLE_TRY(std::unique_ptr<Replica> replica, Replica::make(config));
  return std::make_unique<ModelTask>(job, std::move(dataset), std::move(config), std::move(replica));
}

Result<StateDescription> describe(const Job& job, int channels, const MoreRows& more) {
  return describe_state(model_config(job, channels, more));
}

Result<TaskDescription> describe_with_data(Job job, const MoreRows& more) {
  REKINDLE_TRY(const std::unique_ptr<data::Dataset> dataset, open_data(job, more));
  const data::DatasetInfo& info = dataset->info();
  REKINDLE_CHECK(complete_from_data(job, info));
  REKINDLE_TRY(StateDescription state, describe(job, info.channels, more));
  return TaskDescription{info, std::move(state)};
}

}  // namespace rekindle::model
