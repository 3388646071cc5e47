#include "model/training_module.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "model/abort.hpp"
#include "model/exceptions.hpp"
#include "model/metrics.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::model {
namespace {

using checkpoint::Dtype;
using checkpoint::Role;
using trainer::MetricSum;
using trainer::MicroBatchResult;
using trainer::TensorPlace;

constexpr std::int64_t kNoTarget = -100;  // the value that torch.nn.CrossEntropyLoss ignores by default

const std::map<at::ScalarType, Dtype> kDtypes = {
    {at::kFloat, Dtype::kFloat32}, {at::kDouble, Dtype::kFloat64}, {at::kLong, Dtype::kInt64},
    {at::kInt, Dtype::kInt32},     {at::kByte, Dtype::kUint8},     {at::kBFloat16, Dtype::kBfloat16},
    {at::kHalf, Dtype::kFloat16}};

Status refuse(const std::string& what, const std::string& hint) {
  return fail(ExitCode::kConfig, what, hint);
}

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

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

TrainingModule::TrainingModule(torch::nn::AnyModule module, const ModelRow& row,
                               const TrainingOptions& options)
    : module_(std::move(module)), row_(row), options_(options) {}

Result<std::unique_ptr<TrainingModule>> TrainingModule::make(const ModelRow& row, const ModelOptions& model,
                                                             const TrainingOptions& options,
                                                             std::uint64_t seed, at::Device device) {
  REKINDLE_CHECK(row.check(model));
  return without_exceptions("building the model", [&]() -> Result<std::unique_ptr<TrainingModule>> {
    // All values are drawn on the host, so that they do not depend on the device.
    at::manual_seed(stream_key(seed, Draws::kInit));
    std::unique_ptr<TrainingModule> made(new TrainingModule(row.make(model), row, options));
    made->module_.ptr()->to(device);
    REKINDLE_CHECK(made->collect());
    return made;
  });
}

// Fills tensors_, parameters_ and buffers_.
Status TrainingModule::collect() {
  std::set<const void*> seen;
  std::map<const char*, std::pair<std::size_t, std::string>> ranges;
  const auto add = [&](const std::string& name, const at::Tensor& tensor, Role role) -> Status {
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) return {};
    const auto dtype = kDtypes.find(tensor.scalar_type());
    if (dtype == kDtypes.end() || (role == Role::kParameter && tensor.scalar_type() != at::kFloat))
      return refuse(str("the model's tensor ", name, " is of type ", at::toString(tensor.scalar_type())),
                    role == Role::kParameter
                        ? "parameters have to be float32"
                        : "use float32, float64, int64, int32, uint8, bfloat16 or float16");
    if (tensor.layout() != at::kStrided || tensor.numel() == 0)
      return refuse(str("the model's tensor ", name, " is sparse or empty"),
                    "use dense tensors with elements");
    if (!tensor.is_contiguous())
      return refuse(str("the model's tensor ", name, " is not contiguous"), "register a contiguous tensor");
    ranges[static_cast<const char*>(tensor.const_data_ptr())] = {tensor.nbytes(), name};
    tensors_.push_back({name, dtype->second, tensor.sizes().vec(), role});
    (role == Role::kParameter ? parameters_ : buffers_).push_back(tensor);
    return {};
  };
  const auto module = module_.ptr();
  for (const auto& each : module->named_parameters())
    REKINDLE_CHECK(add(each.key(), each.value(), Role::kParameter));
  for (const auto& each : module->named_buffers())
    REKINDLE_CHECK(add(each.key(), each.value(), Role::kBuffer));
  if (parameters_.empty())
    return refuse("the model has no parameters", "register them with register_module()");
  if (ranges.size() != tensors_.size())
    return refuse("two tensors of the model share memory", "use one tensor for both");
  const std::pair<std::size_t, std::string>* before = nullptr;
  const char* end = nullptr;
  for (const auto& [begin, range] : ranges) {
    if (before != nullptr && begin < end)
      return refuse(
          str("the model's tensors ", before->second, " and ", range.second, " partly share memory"),
          "use one tensor for both, or two");
    before = &range;
    end = begin + range.first;
  }
  return {};
}

Status TrainingModule::bind(const trainer::StateLayout& layout, const at::Tensor& values) {
  layout_ = layout;
  values_ = values;
  return without_exceptions("binding the model's tensors", [&]() -> Status {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor view = view_of(values_, i);
      view.copy_(parameters_[i]);
      parameters_[i].set_data(view);
      parameters_[i].set_requires_grad(true);
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      view_of(values_, parameters_.size() + i).copy_(buffers_[i]);
    places_ = std::make_unique<GradientPlaces>(parameters_);
    return {};
  });
}

at::Tensor TrainingModule::view_of(const at::Tensor& memory, std::size_t tensor) const {
  const TensorPlace& place = layout_.tensors()[tensor];
  const auto offset = static_cast<std::int64_t>(place.offset);
  if (place.is_float())
    return memory.narrow(0, offset, static_cast<std::int64_t>(place.floats)).view(place.spec.shape);
  const at::Tensor& like = buffers_[tensor - parameters_.size()];
  char* const data =
      static_cast<char*>(memory.mutable_data_ptr()) + offset * static_cast<std::int64_t>(sizeof(float));
  return at::from_blob(data, place.spec.shape, like.options());
}

// A module that replaces its parameters would train tensors that are not in the state.
Status TrainingModule::check_unchanged() const {
  std::size_t found = 0;
  std::set<const void*> seen;
  for (const at::Tensor& parameter : module_.ptr()->parameters()) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (found >= parameters_.size() || !parameter.is_same(parameters_[found]) ||
        parameter.const_data_ptr() != view_of(values_, found).const_data_ptr())
      return refuse("the model replaced or added a parameter after it was built",
                    "register all parameters at first");
    ++found;
  }
  return found == parameters_.size() ? Status()
                                     : refuse("the model removed a parameter", "keep all parameters");
}

void TrainingModule::load_buffers(const at::Tensor& values) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t tensor = parameters_.size() + i;
    buffers_[i].copy_(view_of(layout_.tensors()[tensor].is_float() ? values : values_, tensor));
  }
}

void TrainingModule::store_buffers(const at::Tensor& gradient, std::vector<float>& header) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t tensor = parameters_.size() + i;
    const TensorPlace& place = layout_.tensors()[tensor];
    const at::Tensor old = view_of(values_, tensor);
    header[tensor] = buffers_[i].equal(old) ? 0.0F : 1.0F;
    const auto offset = static_cast<std::int64_t>(place.offset);
    if (place.is_float()) {
      view_of(gradient, tensor).copy_(buffers_[i]);
      continue;
    }
    std::array<float, trainer::kProofFloats> proof{};
    const at::Tensor value = buffer_value(tensor);
    trainer::write_proof(bytes_of(value), proof);
    gradient.narrow(0, offset, static_cast<std::int64_t>(place.floats)).zero_();
    gradient.narrow(0, offset, trainer::kProofFloats).copy_(at::tensor(at::ArrayRef<float>(proof)));
  }
}

at::Tensor TrainingModule::buffer_value(std::size_t tensor) const {
  return buffers_[tensor - parameters_.size()].to(at::kCPU).contiguous();
}

Result<at::Tensor> TrainingModule::answer(const TrainingBatch& batch, const at::Tensor& targets) {
  at::Tensor outputs = module_.forward<at::Tensor>(batch.inputs);
  if (row_.samples == data::SampleKind::kText) outputs = outputs.flatten(0, -2);
  if (outputs.dim() != 2 || outputs.size(0) != targets.size(0))
    return fail(
        ExitCode::kConfig,
        str("the model's output has shape ", at::str(outputs.sizes()), " for ", targets.size(0), " targets"),
        "it has to be [samples, classes]");
  return outputs.to(at::kFloat);
}

Result<MicroBatchResult> TrainingModule::train(const TrainingBatch& batch, std::uint64_t key,
                                               const at::Tensor& gradient, const std::atomic<bool>& aborted) {
  REKINDLE_CHECK(check_unchanged());
  std::vector<at::Tensor> places;
  for (std::size_t i = 0; i < parameters_.size(); ++i) places.push_back(view_of(gradient, i));
  module_.ptr()->train();
  places_->begin(std::move(places));
  auto result = without_exceptions("computing a micro-batch", [&]() -> Result<MicroBatchResult> {
    const at::AutoGradMode grad(true);
    {
      const at::NoGradGuard no_grad;
      load_buffers(values_);
    }
    at::manual_seed(key);
    const AbortGuard guard(aborted);
    const Autocast autocast(options_.bf16, values_.device().type());
    const at::Tensor targets = batch.targets.flatten();
    REKINDLE_TRY(const at::Tensor outputs, answer(batch, targets));
    const at::Tensor loss = at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Mean, kNoTarget,
                                                   options_.label_smoothing);
    const MetricSum accuracy = accuracy_of(predicted_by(outputs), targets);
    torch::autograd::backward({loss}, {});
    return MicroBatchResult{loss.item<double>(), {accuracy}};
  });
  const std::vector<bool> received = places_->end();
  if (!result) return result;
  return without_exceptions("storing a gradient", [&]() -> Result<MicroBatchResult> {
    const at::NoGradGuard no_grad;
    std::vector<float> header(layout_.header_floats());
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
      const TensorPlace& place = layout_.tensors()[i];
      if (i < received.size()) {
        header[i] = received[i] ? 1.0F : 0.0F;
        if (!received[i]) view_of(gradient, i).zero_();
      }
      const std::size_t padding = layout_.end_with_padding(i) - place.end();
      if (padding > 0)
        gradient.narrow(0, static_cast<std::int64_t>(place.end()), static_cast<std::int64_t>(padding))
            .zero_();
    }
    store_buffers(gradient, header);
    const auto floats = static_cast<std::int64_t>(layout_.header_floats());
    gradient.narrow(0, 0, floats).copy_(at::from_blob(header.data(), {floats}));
    const std::size_t begin = layout_.tensors()[0].offset;  // a large first tensor begins a page
    if (begin > layout_.header_floats())
      gradient.narrow(0, floats, static_cast<std::int64_t>(begin) - floats).zero_();
    return result;
  });
}

Result<Answers> TrainingModule::evaluate(const TrainingBatch& batch, const at::Tensor& values) {
  return without_exceptions("evaluating", [&]() -> Result<Answers> {
    const at::NoGradGuard no_grad;
    module_.ptr()->eval();
    load_buffers(values);
    const bool others = !values.is_same(values_);
    const auto use = [&](const at::Tensor& memory) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(view_of(memory, i));
    };
    if (others) use(values);
    auto result = without_exceptions("evaluating", [&]() -> Result<Answers> {
      const Autocast autocast(options_.bf16, values_.device().type());
      const at::Tensor targets = batch.targets.flatten();
      REKINDLE_TRY(const at::Tensor outputs, answer(batch, targets));
      const at::Tensor loss = at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum, kNoTarget);
      const at::Tensor predicted = predicted_by(outputs);
      Answers answers{{{loss.item<double>(), static_cast<std::uint64_t>(targets.size(0))},
                       {accuracy_of(predicted, targets)}}};
      if (metrics_of(row_.samples, outputs.size(1)).size() > 1)
        answers.sums.metrics.push_back(top5_of(outputs, targets));
      const at::Tensor host = predicted.to(at::kCPU).contiguous();
      const auto* const first = host.const_data_ptr<std::int64_t>();
      answers.predicted.assign(first, first + host.numel());
      return answers;
    });
    if (others) use(values_);
    return result;
  });
}

}  // namespace rekindle::model
