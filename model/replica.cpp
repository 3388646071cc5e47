#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "model/compute_device.hpp"
#include "model/exceptions.hpp"
#include "model/model.hpp"
#include "model/state_memory.hpp"
#include "model/training_module.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::model {
namespace {

using trainer::MicroBatchResult;

ModelOptions model_options(const ModelConfig& config) {
  return {.classes = config.classes,
          .channels = config.channels,
          .image_size = config.image_size,
          .dropout = config.dropout,
          .layers = config.layers,
          .heads = config.heads,
          .width = config.width,
          .context = config.context,
          .vocabulary = config.classes,
          .own = config.own_options};
}

Result<trainer::UpdateOptions> update_options(const ModelConfig& config, const trainer::StateLayout& layout) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layout.parameters(); ++i) names.push_back(layout.tensors()[i].spec.name);
  REKINDLE_TRY(std::vector<optim::Group> groups, optim::make_groups(config.groups, names));
  return trainer::UpdateOptions{.optimizer = config.optimizer,
                                .groups = std::move(groups),
                                .average = config.average,
                                .counts = config.counts_updates,
                                .micro_batches = config.micro_batches};
}

Result<std::unique_ptr<TrainingModule>> make_module(const ModelConfig& config, at::Device device) {
  REKINDLE_TRY(const ModelRow* const row, find_model(config.model, config.more_models));
  return TrainingModule::make(*row, model_options(config),
                              {config.label_smoothing, config.bf16, config.classes, config.needs_accuracy},
                              config.seed, device);
}

// from_blob wants a pointer to non-const; nobody writes there.
template <class T>
at::Tensor view_of(std::span<const T> values, at::IntArrayRef sizes, at::ScalarType type) {
  return at::from_blob(const_cast<T*>(values.data()), sizes,
                       type);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

class TorchReplica final : public Replica {
 public:
  TorchReplica(ModelConfig config, ComputeDevice device)
      : config_(std::move(config)), device_(std::move(device)) {}

  Status initialize() override {
    memory_.reset();  // first: there is not memory for two
    module_.reset();
    enter();
    REKINDLE_TRY(module_, make_module(config_, device_.torch()));
    layout_ = trainer::StateLayout(module_->tensors());
    REKINDLE_TRY(const trainer::UpdateOptions options, update_options(config_, layout_));
    REKINDLE_TRY(memory_, device_.place() ? make_device_memory(layout_, options, device_)
                                          : make_host_memory(layout_, options));
    return module_->bind(layout_, memory_->values());
  }

  device::Place place() const override { return device_.place(); }
  const trainer::StateLayout& layout() const override { return layout_; }
  const std::vector<checkpoint::OtherName>& other_names() const override { return module_->other_names(); }
  checkpoint::State state() override { return memory_->state(); }
  trainer::Arenas arenas() override { return memory_->arenas(); }
  Status download() override { return memory_->download(); }
  Status upload() override { return memory_->upload(); }
  Result<std::optional<Hash128>> digest() override { return memory_->digest(); }

  Result<MicroBatchResult> train(const Samples& samples, std::uint64_t key, std::span<float> gradient,
                                 const std::atomic<bool>& aborted) override {
    if (gradient.size() != layout_.floats())
      return fail(str("gradient memory of ", gradient.size(), " floats instead of ", layout_.floats()));
    return without_exceptions("computing a micro-batch", [&]() -> Result<MicroBatchResult> {
      enter();
      REKINDLE_TRY(const TrainingBatch batch, to_device(samples));
      if (batch.learned == 0)
        return forward_error(Error{
            ExitCode::kConfig, str("all labels of a micro-batch are ", data::kNoLabel, ": it has no loss"),
            "leave such samples out; a data set's read() has to write labels; a new run: fewer "
            "--micro-batches",
            ErrorKind::kDamage});
      REKINDLE_TRY(const MicroBatchResult result,
                   module_->train(batch, key, device_.tensor(gradient), aborted));
      REKINDLE_CHECK(device_.check_memory());
      for (std::size_t i = layout_.parameters(); i < layout_.tensors().size(); ++i) {
        if (!layout_.tensors()[i].is_float()) memory_->propose(i, module_->buffer_bytes(i));
      }
      return result;
    });
  }

  Status settle() override {
    if (const device::Place place = device_.place()) return place.device->synchronize(*place.stream);
    return {};
  }

  Result<Answers> evaluate(const Samples& samples, std::uint64_t key,
                           const std::atomic<bool>& aborted) override {
    return without_exceptions("evaluating", [&]() -> Result<Answers> {
      enter();
      REKINDLE_CHECK(device_.check_memory());  // of what came before
      REKINDLE_TRY(const TrainingBatch batch, to_device(samples));
      auto answers = module_->evaluate(batch, key,
                                       memory_->averaged() ? memory_->average() : memory_->values(), aborted);
      // Nothing of the state depends on an evaluation, and the next micro-batch is not to blame.
      if (ComputeDevice::memory_was_full() && !std::exchange(told_full_, true))
        log_warning(
            str(device_.name(),
                " had too little memory left in an evaluation: its numbers may differ in their last bits"));
      return answers;
    });
  }

  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    memory_->update(first, sum, step);
  }
  Status finish_update() override { return memory_->finish_update(); }

 private:
  void enter() {
    device_.enter();
    // The number of OpenMP threads belongs to the calling thread, and it makes the bits.
    if (std::exchange(thread_, std::this_thread::get_id()) != std::this_thread::get_id())
      at::set_num_threads(config_.threads);
  }

  Result<TrainingBatch> to_device(const Samples& samples) const {
    std::uint64_t learned = 0;
    for (const std::int64_t label : samples.labels) {
      if (label == data::kNoLabel) continue;
      ++learned;
      if (label < 0 || label >= config_.classes)
        return fail(str("label ", label, " does not belong to a model of ", config_.classes, " classes"));
    }
    const auto labels = static_cast<std::int64_t>(samples.labels.size());
    at::Tensor inputs;
    if (config_.channels > 0) {
      const std::int64_t side = config_.image_size;
      if (labels == 0 ||
          static_cast<std::int64_t>(samples.images.size()) != labels * config_.channels * side * side)
        return fail(str(samples.images.size(), " floats are not ", labels, " images of ", config_.channels,
                        "x", side, "x", side));
      inputs = samples.on_device
                   ? device_.tensor(samples.images).view({labels, config_.channels, side, side})
                   : view_of(samples.images, {labels, config_.channels, side, side}, at::kFloat);
    } else {
      if (samples.tokens.size() != samples.labels.size() || labels % config_.context != 0)
        return fail(str(samples.tokens.size(), " tokens with ", labels, " labels are not contexts of ",
                        config_.context));
      inputs = view_of(samples.tokens, {labels / config_.context, config_.context}, at::kLong);
    }
    return TrainingBatch{inputs.to(device_.torch()),
                         view_of(samples.labels, {labels}, at::kLong).to(device_.torch()), learned};
  }

  const ModelConfig config_;
  ComputeDevice device_;
  trainer::StateLayout layout_;
  std::unique_ptr<TrainingModule> module_;
  std::unique_ptr<StateMemory> memory_;
  bool told_full_ = false;  // that an evaluation found the memory full
  std::thread::id thread_;
};

}  // namespace

Result<std::unique_ptr<Replica>> Replica::make(const ModelConfig& config) {
  REKINDLE_CHECK(check_config(config));
  choose_algorithms(config.tf32 ? MatrixProducts::kTf32 : MatrixProducts::kFloat32);
  REKINDLE_TRY(ComputeDevice device, ComputeDevice::open(config.device));
  auto replica = std::make_unique<TorchReplica>(config, std::move(device));
  REKINDLE_CHECK(replica->initialize());
  return replica;
}

Result<StateDescription> describe_state(const ModelConfig& config) {
  REKINDLE_CHECK(check_config(config));
  REKINDLE_TRY(const std::unique_ptr<TrainingModule> module, make_module(config, at::kCPU));
  const trainer::StateLayout layout(module->tensors());
  REKINDLE_TRY(const trainer::UpdateOptions options, update_options(config, layout));
  REKINDLE_TRY(const trainer::UpdatePlan plan, trainer::UpdatePlan::make(layout, options));
  return StateDescription{trainer::spec_of_state(layout, plan, config.average > 0), module->other_names()};
}

Status check_config(const ModelConfig& config) {
  REKINDLE_TRY(const ModelRow* const row, find_model(config.model, config.more_models));
  REKINDLE_CHECK(optim::make_optimizer(config.optimizer));
  const auto refuse = [](std::string what, std::string hint) -> Status {
    return fail(ExitCode::kConfig, std::move(what), std::move(hint));
  };
  if (config.classes < 1) return refuse(str(config.classes, " classes"), "a model needs at least one");
  // Its cross-entropy is 0 for any output.
  if (config.classes == 1 && row->loss == nullptr)
    return refuse(str(config.model, " has no loss of its own, and the data set one class: nothing to learn"),
                  "give the model's row a loss, or the data set more classes");
  if (config.needs_accuracy && !row->has_accuracy)
    return refuse(str(config.model, " has no accuracy to choose the best checkpoint by"),
                  "use --best-metric loss");
  if (config.threads < 1) return refuse(str(config.threads, " threads"), "use --threads 1 or more");
  if (row->samples == data::SampleKind::kText && config.channels > 0)
    return refuse(str(config.model, " trains on text, and this data set has images"), "use --dataset text");
  if (row->samples == data::SampleKind::kImages && config.channels == 0)
    return refuse(str(config.model, " trains on images, and text has none"), "use --model gpt");
  // Written so that a NaN is refused too.
  if (config.dropout && !(*config.dropout >= 0 && *config.dropout < 1))
    return refuse(str("dropout ", *config.dropout, " is out of range"),
                  "use a number from 0 up to, not including, 1");
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1))
    return refuse(str("label smoothing ", config.label_smoothing, " is out of range"),
                  "use a number from 0 up to, not including, 1");
  if (config.label_smoothing > 0 && row->loss != nullptr)
    return refuse(str("label smoothing with ", config.model, ", which has a loss of its own"),
                  "leave it out");
  return check_options(*row, model_options(config));
}

}  // namespace rekindle::model
