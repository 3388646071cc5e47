#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "model/exceptions.hpp"
#include "model/model.hpp"
#include "model/open_device.hpp"
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
  return TrainingModule::make(*row, model_options(config), {config.label_smoothing, config.bf16}, config.seed,
                              device);
}

// from_blob wants a pointer to non-const; nobody writes there.
template <class T>
at::Tensor view_of(std::span<const T> values, at::IntArrayRef sizes, at::ScalarType type) {
  return at::from_blob(const_cast<T*>(values.data()), sizes,
                       type);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

class TorchReplica final : public Replica {
 public:
  TorchReplica(ModelConfig config, at::Device device, std::unique_ptr<TrainingModule> module,
               std::unique_ptr<StateMemory> memory, const trainer::StateLayout& layout)
      : config_(std::move(config)),
        device_(device),
        layout_(layout),
        module_(std::move(module)),
        memory_(std::move(memory)) {
    if (!device_.is_cpu())
      gradient_ = at::zeros({static_cast<std::int64_t>(layout_.floats())},
                            at::TensorOptions(at::kFloat).device(device_));
  }

  Status bind() { return module_->bind(layout_, memory_->values()); }

  const trainer::StateLayout& layout() const override { return layout_; }
  checkpoint::State state() override { return memory_->state(); }
  trainer::Arenas arenas() override { return memory_->arenas(); }
  Status download() override {
    return without_exceptions("copying the state from the device", [&]() -> Status {
      memory_->download();
      return {};
    });
  }
  Status upload() override {
    return without_exceptions("copying the state to the device", [&]() -> Status {
      memory_->upload();
      return {};
    });
  }

  Result<MicroBatchResult> train(const Samples& samples, std::uint64_t key, std::span<float> gradient,
                                 const std::atomic<bool>& aborted) override {
    if (gradient.size() != layout_.floats())
      return fail(str("gradient memory of ", gradient.size(), " floats instead of ", layout_.floats()));
    REKINDLE_TRY(const TrainingBatch batch, to_device(samples));
    return without_exceptions("computing a micro-batch", [&]() -> Result<MicroBatchResult> {
      use_threads();
      const at::Tensor host = at::from_blob(gradient.data(), {static_cast<std::int64_t>(gradient.size())});
      const at::Tensor& to = device_.is_cpu() ? host : gradient_;
      REKINDLE_TRY(const MicroBatchResult result, module_->train(batch, key, to, aborted));
      if (!device_.is_cpu()) host.copy_(to);
      for (std::size_t i = layout_.parameters(); i < layout_.tensors().size(); ++i) {
        if (!layout_.tensors()[i].is_float()) memory_->propose(i, module_->buffer_value(i));
      }
      return result;
    });
  }

  Result<Answers> evaluate(const Samples& samples) override {
    REKINDLE_TRY(const TrainingBatch batch, to_device(samples));
    use_threads();
    const at::Tensor average = memory_->average();
    return module_->evaluate(batch, average.defined() && has_updates() ? average : memory_->values());
  }

  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    if (!failure_) return;
    failure_ = without_exceptions("updating the state", [&]() -> Status {
      memory_->update(first, sum, step);
      return {};
    });
  }

  Status finish_update() override {
    if (failure_)
      failure_ = without_exceptions("updating the state", [&] { return memory_->finish_update(); });
    return failure_;
  }

 private:
  // The moving average has no values before the first update.
  bool has_updates() { return memory_->values()[0].view(at::kInt).item<std::int32_t>() > 0; }

  // The number of OpenMP threads belongs to the calling thread, and it makes the bits.
  void use_threads() {
    if (std::exchange(thread_, std::this_thread::get_id()) != std::this_thread::get_id())
      at::set_num_threads(config_.threads);
  }

  Result<TrainingBatch> to_device(const Samples& samples) const {
    for (const std::int64_t label : samples.labels)
      if (label < 0 || label >= config_.classes)
        return fail(str("label ", label, " does not belong to a model of ", config_.classes, " classes"));
    const auto labels = static_cast<std::int64_t>(samples.labels.size());
    at::Tensor inputs;
    if (config_.channels > 0) {
      const std::int64_t side = config_.image_size;
      if (labels == 0 ||
          static_cast<std::int64_t>(samples.images.size()) != labels * config_.channels * side * side)
        return fail(str(samples.images.size(), " floats are not ", labels, " images of ", config_.channels,
                        "x", side, "x", side));
      inputs = view_of(samples.images, {labels, config_.channels, side, side}, at::kFloat);
    } else {
      if (samples.tokens.size() != samples.labels.size() || labels % config_.context != 0)
        return fail(str(samples.tokens.size(), " tokens with ", labels, " labels are not contexts of ",
                        config_.context));
      inputs = view_of(samples.tokens, {labels / config_.context, config_.context}, at::kLong);
    }
    return TrainingBatch{inputs.to(device_), view_of(samples.labels, {labels}, at::kLong).to(device_)};
  }

  const ModelConfig config_;
  const at::Device device_;
  const trainer::StateLayout layout_;
  const std::unique_ptr<TrainingModule> module_;
  const std::unique_ptr<StateMemory> memory_;
  at::Tensor gradient_;  // of a micro-batch, on the device; undefined on a CPU
  std::thread::id thread_;
  Status failure_;  // of an update that has not been asked for yet
};

}  // namespace

Result<std::unique_ptr<Replica>> Replica::make(const ModelConfig& config) {
  REKINDLE_CHECK(check_config(config));
  REKINDLE_TRY(const at::Device device, open_device(config.device));
  REKINDLE_TRY(std::unique_ptr<TrainingModule> module, make_module(config, device));
  const trainer::StateLayout layout(module->tensors());
  REKINDLE_TRY(const trainer::UpdateOptions options, update_options(config, layout));
  REKINDLE_TRY(std::unique_ptr<StateMemory> memory, device.is_cpu()
                                                        ? make_host_memory(layout, options)
                                                        : make_device_memory(layout, options, device));
  auto replica = std::make_unique<TorchReplica>(config, device, std::move(module), std::move(memory), layout);
  REKINDLE_CHECK(replica->bind());
  return replica;
}

Result<checkpoint::StateSpec> state_spec(const ModelConfig& config) {
  REKINDLE_CHECK(check_config(config));
  REKINDLE_TRY(const std::unique_ptr<TrainingModule> module, make_module(config, at::kCPU));
  const trainer::StateLayout layout(module->tensors());
  REKINDLE_TRY(const trainer::UpdateOptions options, update_options(config, layout));
  REKINDLE_TRY(const trainer::UpdatePlan plan, trainer::UpdatePlan::make(layout, options));
  return trainer::spec_of_state(layout, plan, config.average > 0);
}

Status check_config(const ModelConfig& config) {
  REKINDLE_TRY(const ModelRow* const row, find_model(config.model, config.more_models));
  REKINDLE_CHECK(optim::make_optimizer(config.optimizer));
  const auto refuse = [](std::string what, std::string hint) -> Status {
    return fail(ExitCode::kConfig, std::move(what), std::move(hint));
  };
  if (config.classes < 1) return refuse(str(config.classes, " classes"), "a model needs at least one");
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
  return row->check(model_options(config));
}

}  // namespace rekindle::model
