#include "model/training_module.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "model/abort.hpp"
#include "model/exceptions.hpp"
#include "model/recurrent.hpp"

namespace rekindle::model {
namespace {

using trainer::MetricSum;
using trainer::MicroBatchResult;

using data::kNoLabel;

class Autocast {
 public:
  explicit Autocast(bool on, at::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_enabled(device_, true);
  }
  // The cache holds bfloat16 copies of the weights, which the next update changes.
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(device_, false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool on_;
  const at::DeviceType device_;
};

std::string look_at(const ModelRow& row) { return str("look at the model ", row.name); }

}  // namespace

Status check_options(const ModelRow& row, const ModelOptions& options) {
  return without_exceptions(
      "checking the model's options", [&] { return row.check(options); }, look_at(row));
}

TrainingModule::TrainingModule(torch::nn::AnyModule module, const ModelRow& row,
                               const TrainingOptions& options)
    : module_(std::move(module)), row_(row), options_(options) {}

Result<std::unique_ptr<TrainingModule>> TrainingModule::make(const ModelRow& row, const ModelOptions& model,
                                                             const TrainingOptions& options,
                                                             std::uint64_t seed, at::Device device) {
  return without_exceptions("building the model", [&]() -> Result<std::unique_ptr<TrainingModule>> {
    REKINDLE_CHECK(check_options(row, model));
    // All values are drawn on the host, so that they do not depend on the device.
    at::manual_seed(stream_key(seed, Draws::kInit));
    REKINDLE_TRY(torch::nn::AnyModule module,
                 without_exceptions(
                     "building the model", [&]() -> Result<torch::nn::AnyModule> { return row.make(model); },
                     look_at(row)));
    std::unique_ptr<TrainingModule> made(new TrainingModule(std::move(module), row, options));
    if (device.is_cuda()) REKINDLE_CHECK(check_recurrent_layers(*made->module_.ptr()));
    made->module_.ptr()->to(device);
    REKINDLE_CHECK(made->collect());
    return made;
  });
}

Result<at::Tensor> TrainingModule::answer(const TrainingBatch& batch, const at::Tensor& targets) {
  const bool text = row_.samples == data::SampleKind::kText;
  const at::Tensor returned = module_.forward<at::Tensor>(batch.inputs);
  const at::Tensor outputs = text && returned.dim() > 2 ? returned.flatten(0, -2) : returned;
  const char* const wanted =
      text ? "it has to be [samples, tokens, vocabulary]" : "it has to be [samples, classes]";
  if (outputs.dim() != 2 || outputs.size(0) != targets.size(0))
    return fail(
        ExitCode::kConfig,
        str("the model's output has shape ", at::str(returned.sizes()), " for ", targets.size(0), " targets"),
        wanted);
  if (row_.loss == nullptr && outputs.size(1) < options_.classes)
    return fail(
        ExitCode::kConfig,
        str("the model's output has shape ", at::str(returned.sizes()), ", and the data have ",
            options_.classes, " classes"),
        str(wanted, ": the model gets their number as ModelOptions::", text ? "vocabulary" : "classes"));
  if (options_.needs_accuracy && !names_classes(outputs))
    return fail(ExitCode::kConfig,
                str("the model's output has ", outputs.size(1), " columns for ", options_.classes,
                    " classes, so it has no accuracy to choose the best checkpoint by"),
                "use --best-metric loss");
  return outputs.to(at::kFloat);
}

Result<at::Tensor> TrainingModule::loss(const at::Tensor& outputs, const at::Tensor& targets,
                                        double smoothing) const {
  if (row_.loss == nullptr)
    return at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Mean, kNoLabel, smoothing);
  at::Tensor loss = row_.loss(outputs, targets);
  if (loss.dim() == 0) return loss;
  return fail(ExitCode::kConfig, str("the loss of ", row_.name, " has shape ", at::str(loss.sizes())),
              "it has to be a scalar, the mean over the targets");
}

Result<MicroBatchResult> TrainingModule::train(const TrainingBatch& batch, std::uint64_t key,
                                               const at::Tensor& gradient, const std::atomic<bool>& aborted) {
  auto pass = without_exceptions("computing a micro-batch", [&]() -> Result<Pass> {
    at::manual_seed(key);
    // A recording starts everything at once.
    if (passes_->ready() && aborted) throw Aborted();
    std::optional<AbortGuard> guard;
    if (!passes_->ready()) guard.emplace(aborted, values_.is_cpu());
    return passes_->run(batch, gradient, [this](const TrainingBatch& input, const at::Tensor& to) {
      return start(input, to);
    });
  });
  if (!pass) return forward_error(std::move(pass.error()));
  return without_exceptions("computing a micro-batch",
                            [&] { return finish(*pass, gradient, batch.learned); });
}

Result<Pass> TrainingModule::start(const TrainingBatch& batch, const at::Tensor& gradient) {
  REKINDLE_CHECK(check_unchanged());
  const std::vector<std::uint32_t> before = versions();
  module_.ptr()->train();  // an evaluation may have been in between
  const std::vector<at::Tensor>& views = views_of(gradient);
  places_->begin({views.begin(), views.begin() + static_cast<std::ptrdiff_t>(parameters_.size())});
  auto pass = without_exceptions("computing a micro-batch", [&]() -> Result<Pass> {
    const at::AutoGradMode grad(true);
    {
      const at::NoGradGuard no_grad;
      load_buffers(values_);
    }
    std::optional<Autocast> autocast(std::in_place, options_.bf16, values_.device().type());
    const at::Tensor targets = batch.targets.flatten();
    REKINDLE_TRY(const at::Tensor outputs, answer(batch, targets));
    REKINDLE_TRY(const at::Tensor loss, this->loss(outputs, targets, options_.label_smoothing));
    if (!loss.requires_grad())
      return fail(ExitCode::kConfig, "the model's loss has no gradient", "compute it from the outputs");
    REKINDLE_CHECK(unregistered_.look(loss, parameters_));
    Pass made{.loss = loss.detach()};
    if (names_classes(outputs)) made.correct = correct_of(predicted_by(outputs), targets);
    autocast.reset();  // a part of the model that turns it off computes in float32 backward, too
    REKINDLE_CHECK(places_->check_none());
    const GradientPlaces::Backward backward(*places_);
    torch::autograd::backward({loss}, {});
    return made;
  });
  auto received = places_->end();
  if (!pass) return pass;
  if (!received) return forward_error(std::move(received.error()));
  REKINDLE_CHECK(check_values_kept(before));
  pass->received = std::move(*received);
  REKINDLE_CHECK(start_rest(*pass, gradient));
  return pass;
}

// Zero where there is no gradient, and the new values of buffers.
Status TrainingModule::start_rest(Pass& pass, const at::Tensor& gradient) {
  return without_exceptions("storing a gradient", [&]() -> Status {
    const at::NoGradGuard no_grad;
    const auto zero = [&](std::size_t first, std::size_t end) {
      if (first < end)
        gradient.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first)).zero_();
    };
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
      if (i < pass.received.size() && !pass.received[i]) view_of(gradient, i).zero_();
      zero(layout_.tensors()[i].end(), layout_.end_with_padding(i));
    }
    zero(layout_.header_floats(), layout_.tensors()[0].offset);  // a large first tensor begins a page
    store_buffers(pass, gradient);
    return {};
  });
}

Result<MicroBatchResult> TrainingModule::finish(const Pass& pass, const at::Tensor& gradient,
                                                std::uint64_t learned) {
  const at::NoGradGuard no_grad;
  std::vector<float> header(layout_.header_floats());
  for (std::size_t i = 0; i < pass.received.size(); ++i) header[i] = pass.received[i] ? 1.0F : 0.0F;
  finish_buffers(pass, gradient, header);
  const auto floats = static_cast<std::int64_t>(layout_.header_floats());
  gradient.narrow(0, 0, floats).copy_(at::from_blob(header.data(), {floats}));
  MicroBatchResult result{.loss = pass.loss.item<double>()};
  if (!metrics().empty())
    result.metrics = {pass.correct.defined() ? MetricSum{pass.correct.item<double>(), learned} : MetricSum{}};
  return result;
}

Result<Answers> TrainingModule::evaluate(const TrainingBatch& batch, std::uint64_t key,
                                         const at::Tensor& values, const std::atomic<bool>& aborted) {
  return without_exceptions("evaluating", [&]() -> Result<Answers> {
    const at::NoGradGuard no_grad;
    at::manual_seed(key);
    const std::vector<std::uint32_t> before = versions();
    module_.ptr()->eval();
    load_buffers(values);
    const bool others = !values.is_same(values_);
    const auto use = [&](const at::Tensor& memory) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(view_of(memory, i));
    };
    if (others) use(values);
    auto result = without_exceptions("evaluating", [&]() -> Result<Answers> {
      const AbortGuard guard(aborted, values_.is_cpu());
      const Autocast autocast(options_.bf16, values_.device().type());
      const at::Tensor targets = batch.targets.flatten();
      REKINDLE_TRY(const at::Tensor outputs, answer(batch, targets));
      const std::uint64_t count = batch.learned;
      const bool names_classes = this->names_classes(outputs);
      const at::Tensor predicted = names_classes ? predicted_by(outputs) : at::Tensor();
      Answers answers{{{0, count}, {}}};
      answers.sums.metrics.resize(metrics().size());
      if (names_classes && !metrics().empty())
        answers.sums.metrics[0] = {correct_of(predicted, targets).item<double>(), count};
      if (row_.loss == nullptr) {
        answers.sums.loss.sum =
            at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum, kNoLabel).item<double>();
      } else if (count > 0) {
        REKINDLE_TRY(const at::Tensor mean, loss(outputs, targets, 0));
        answers.sums.loss.sum = mean.item<double>() * static_cast<double>(count);
      }
      if (!names_classes) return answers;
      if (metrics().size() > 1)
        answers.sums.metrics[1] = {in_top5_of(outputs, targets).item<double>(), count};
      const at::Tensor host = predicted.to(at::kCPU).contiguous();
      const auto* const first = host.const_data_ptr<std::int64_t>();
      answers.predicted.assign(first, first + host.numel());
      return answers;
    });
    const Status kept = check_values_kept(before);
    if (others) use(values_);
    if (result && !kept) return forward_error(kept.error());
    return result;
  });
}

}  // namespace rekindle::model
