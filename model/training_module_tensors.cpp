// The tensors of a TrainingModule: which it has, and how they get into the trainer's memory and back.
#include <ATen/ATen.h>

#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "model/exceptions.hpp"
#include "model/training_module.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::model {
namespace {

using checkpoint::Dtype;
using checkpoint::Role;
using trainer::TensorPlace;

const std::map<at::ScalarType, Dtype> kDtypes = {
    {at::kFloat, Dtype::kFloat32}, {at::kDouble, Dtype::kFloat64}, {at::kLong, Dtype::kInt64},
    {at::kInt, Dtype::kInt32},     {at::kByte, Dtype::kUint8},     {at::kBFloat16, Dtype::kBfloat16},
    {at::kHalf, Dtype::kFloat16}};

Status refuse(const std::string& what, const std::string& hint) {
  return fail(ExitCode::kConfig, what, hint);
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

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
  if (buffers_.empty()) return;
  // All at once, because the host waits for a GPU here.
  std::vector<at::Tensor> changed, whole;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    changed.push_back(buffers_[i].ne(view_of(values_, parameters_.size() + i)).any());
    if (!layout_.tensors()[parameters_.size() + i].is_float())
      whole.push_back(buffers_[i].contiguous().flatten().view(at::kByte));
  }
  const at::Tensor differs = at::stack(changed).to(at::kCPU),
                   bytes = whole.empty() ? at::Tensor() : at::cat(whole).to(at::kCPU);
  std::span<const std::byte> values = whole.empty() ? std::span<const std::byte>() : bytes_of(bytes);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t tensor = parameters_.size() + i;
    const TensorPlace& place = layout_.tensors()[tensor];
    header[tensor] = differs.const_data_ptr<bool>()[i] ? 1.0F : 0.0F;
    const auto offset = static_cast<std::int64_t>(place.offset);
    if (place.is_float()) {
      view_of(gradient, tensor).copy_(buffers_[i]);
      continue;
    }
    std::array<float, trainer::kProofFloats> proof{};
    trainer::write_proof(values.first(place.spec.bytes()), proof);
    values = values.subspan(place.spec.bytes());
    gradient.narrow(0, offset, static_cast<std::int64_t>(place.floats)).zero_();
    gradient.narrow(0, offset, trainer::kProofFloats).copy_(at::tensor(at::ArrayRef<float>(proof)));
  }
}

at::Tensor TrainingModule::buffer_value(std::size_t tensor) const {
  return buffers_[tensor - parameters_.size()].clone(at::MemoryFormat::Contiguous);
}

}  // namespace rekindle::model
