// The tensors of a TrainingModule: which it has, and how they get into the trainer's memory and back.
#include <ATen/ATen.h>

#include <algorithm>
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
    {at::kHalf, Dtype::kFloat16},  {at::kBool, Dtype::kUint8}};

Status refuse(const std::string& what, const std::string& hint) {
  return fail(ExitCode::kConfig, what, hint);
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

// Fills tensors_, parameters_ and buffers_.
Status TrainingModule::collect() {
  std::map<const void*, std::string> seen;
  std::map<const char*, std::pair<std::size_t, std::string>> ranges;
  const auto add = [&](const std::string& name, const at::Tensor& tensor, Role role) -> Status {
    const auto [first, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!is_new) {
      other_names_.push_back({name, first->second});
      return {};
    }
    const auto dtype = kDtypes.find(tensor.scalar_type());
    if (dtype == kDtypes.end() || (role == Role::kParameter && tensor.scalar_type() != at::kFloat))
      return refuse(str("the model's tensor ", name, " is of type ", at::toString(tensor.scalar_type())),
                    role == Role::kParameter
                        ? "parameters have to be float32"
                        : "use float32, float64, int64, int32, uint8, bool, bfloat16 or float16");
    if (tensor.layout() != at::kStrided || tensor.numel() == 0)
      return refuse(str("the model's tensor ", name, " is sparse or empty"),
                    "use dense tensors with elements");
    if (!tensor.is_contiguous())
      return refuse(str("the model's tensor ", name, " is not contiguous"), "register a contiguous tensor");
    const auto [range, alone] =
        ranges.emplace(static_cast<const char*>(tensor.const_data_ptr()), std::pair(tensor.nbytes(), name));
    if (!alone)
      return refuse(str("the model's tensors ", range->second.second, " and ", name, " share memory"),
                    "register one tensor under both names, or two");
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
  for (const at::Tensor& parameter : parameters_) trains_.push_back(parameter.requires_grad());
  for (const at::Tensor& buffer : buffers_) holders_.push_back(buffer.use_count());
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
  return check_views();
}

// bind() moves the parameters to other memory, and a view that the module keeps would stay where it is.
Status TrainingModule::check_views() const {
  std::map<const c10::StorageImpl*, std::set<const void*>> known;  // tensors, and what they are views of
  for (const auto* const tensors : {&parameters_, &buffers_})
    for (const at::Tensor& tensor : *tensors) {
      auto& of_memory = known[tensor.storage().unsafeGetStorageImpl()];
      of_memory.insert(tensor.unsafeGetTensorImpl());
      if (tensor.is_view()) of_memory.insert(tensor._base().unsafeGetTensorImpl());
    }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Storage& memory = parameters_[i].storage();
    if (memory.use_count() > known[memory.unsafeGetStorageImpl()].size())
      return refuse(str("the model keeps a view of ", tensors_[i].name, ", such as a transpose"),
                    "make the view in forward(): this one would keep the initial values");
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
      parameters_[i].set_requires_grad(trains_[i]);
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      view_of(values_, parameters_.size() + i).copy_(buffers_[i]);
    value_views_.clear();
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i) value_views_.push_back(view_of(values_, i));
    places_ = std::make_unique<GradientPlaces>(parameters_);
    passes_ = std::make_unique<RecordedPasses>(row_.recordable && values_.is_cuda());
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

// A module that replaces its parameters or buffers would use tensors that are not in the state.
Status TrainingModule::check_unchanged() const {
  std::size_t found = 0;
  std::set<const void*> seen;
  for (const at::Tensor& parameter : module_.ptr()->parameters()) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (found >= parameters_.size() || !parameter.is_same(parameters_[found]) ||
        parameter.const_data_ptr() != view_of(values_, found).const_data_ptr())
      return refuse("the model replaced or added a parameter after it was built",
                    "register all parameters at first");
    if (parameter.requires_grad() != trains_[found])
      return refuse(str("the model froze or unfroze ", tensors_[found].name, " after it was built"),
                    "the constructor decides which parameters are trained");
    ++found;
  }
  if (found < parameters_.size()) return refuse("the model removed a parameter", "keep all parameters");
  std::size_t buffers = 0;
  for (const at::Tensor& buffer : module_.ptr()->buffers()) {
    if (!seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    if (buffers >= buffers_.size() || !buffer.is_same(buffers_[buffers]))
      return refuse("the model replaced or added a buffer after it was built",
                    "register all buffers at first, and change them in place");
    ++buffers;
  }
  return buffers == buffers_.size() ? Status() : refuse("the model removed a buffer", "keep all buffers");
}

std::vector<std::uint32_t> TrainingModule::versions() const {
  std::vector<std::uint32_t> all;
  all.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_)
    all.push_back(parameter.unsafeGetTensorImpl()->version_counter().current_version());
  return all;
}

// Each trainer computes other micro-batches, so their parameters would differ from then on.
Status TrainingModule::check_values_kept(const std::vector<std::uint32_t>& versions) const {
  const std::vector<std::uint32_t> now = this->versions();
  const auto [changed, was] = std::ranges::mismatch(now, versions);
  if (changed == now.end()) return check_buffers_kept();
  return refuse(
      str("the model changes its parameter ", tensors_[static_cast<std::size_t>(changed - now.begin())].name,
          " in its forward or backward pass"),
      "only the optimizer may change parameters: an embedding with max_norm does this, and clamping "
      "weights, too");
}

// `running = 0.9 * running + x` gives the model's field another tensor, and the registered one, which is
// saved, keeps its value: it has one holder less.
Status TrainingModule::check_buffers_kept() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const checkpoint::TensorSpec& spec = tensors_[parameters_.size() + i];
    if (buffers_[i].use_count() < holders_[i])
      return refuse(str("the model put another tensor in the place of its buffer ", spec.name),
                    "change the buffer in place, as with copy_(): only the registered tensor is saved");
    if (buffers_[i].sizes() != at::IntArrayRef(spec.shape) ||
        buffers_[i].scalar_type() != value_views_[parameters_.size() + i].scalar_type())
      return refuse(str("the model's buffer ", spec.name, " became ", at::toString(buffers_[i].scalar_type()),
                        " of shape ", at::str(buffers_[i].sizes())),
                    "keep its type and shape");
  }
  return {};
}

const std::vector<at::Tensor>& TrainingModule::views_of(const at::Tensor& gradient) {
  if (gradient_ == gradient.const_data_ptr()) return gradient_views_;
  gradient_ = nullptr;  // until all are there: an abort may come in between
  gradient_views_.clear();
  for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
    const TensorPlace& place = layout_.tensors()[i];
    gradient_views_.push_back(place.is_float() ? view_of(gradient, i)
                                               : gradient.narrow(0, static_cast<std::int64_t>(place.offset),
                                                                 static_cast<std::int64_t>(place.floats)));
  }
  gradient_ = gradient.const_data_ptr();
  return gradient_views_;
}

void TrainingModule::load_buffers(const at::Tensor& values) {
  // Apart by type: copied by one operator.
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> copies;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t tensor = parameters_.size() + i;
    const bool others = layout_.tensors()[tensor].is_float() && !values.is_same(values_);
    auto& [to, from] = copies[buffers_[i].scalar_type()];
    to.push_back(buffers_[i]);
    from.push_back(others ? view_of(values, tensor) : value_views_[tensor]);
  }
  for (const auto& [type, copy] : copies) at::_foreach_copy_(copy.first, copy.second);
}

// In few operators for all buffers together, because a GPU's host waits for each answer.
void TrainingModule::store_buffers(Pass& pass, const at::Tensor& gradient) {
  if (buffers_.empty()) return;
  const std::vector<at::Tensor>& to = views_of(gradient);
  std::vector<at::Tensor> floats, float_places, others, old_others;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::size_t tensor = parameters_.size() + i;
    if (layout_.tensors()[tensor].is_float()) {
      floats.push_back(buffers_[i]);
      float_places.push_back(to[tensor]);
    } else {
      others.push_back(buffers_[i].contiguous().flatten().view(at::kByte));
      old_others.push_back(value_views_[tensor].flatten().view(at::kByte));
    }
  }
  if (!floats.empty()) at::_foreach_copy_(float_places, floats);
  const auto begin = static_cast<std::int64_t>(layout_.tensors()[parameters_.size()].offset),
             count = static_cast<std::int64_t>(layout_.floats()) - begin;
  pass.differs = gradient.narrow(0, begin, count).ne(values_.narrow(0, begin, count));
  if (!others.empty()) pass.bytes = at::cat(others), pass.old_bytes = at::cat(old_others);
}

void TrainingModule::finish_buffers(const Pass& pass, const at::Tensor& gradient,
                                    std::vector<float>& header) {
  if (buffers_.empty()) return;
  const std::size_t first = layout_.tensors()[parameters_.size()].offset;
  const at::Tensor differs = pass.differs.to(at::kCPU);
  at::Tensor bytes, old_bytes;
  if (pass.bytes.defined()) bytes = pass.bytes.to(at::kCPU), old_bytes = pass.old_bytes.to(at::kCPU);
  std::vector<float> proofs;
  std::vector<at::Tensor> places;
  std::vector<std::int64_t> sizes;
  std::size_t done = 0;  // bytes
  for (std::size_t tensor = parameters_.size(); tensor < layout_.tensors().size(); ++tensor) {
    const TensorPlace& place = layout_.tensors()[tensor];
    if (place.is_float()) {
      const std::span<const bool> own(differs.const_data_ptr<bool>() + (place.offset - first), place.floats);
      header[tensor] = std::ranges::find(own, true) != own.end() ? 1.0F : 0.0F;
      continue;
    }
    const std::size_t size = place.spec.bytes();
    const std::span<const std::byte> value = bytes_of(bytes).subspan(done, size),
                                     old = bytes_of(old_bytes).subspan(done, size);
    header[tensor] = std::ranges::equal(value, old) ? 0.0F : 1.0F;
    std::array<float, trainer::kProofFloats> proof{};
    trainer::write_proof(value, proof);
    proofs.insert(proofs.end(), proof.begin(), proof.end());
    proofs.resize(proofs.size() + place.floats - proof.size());  // zero
    places.push_back(views_of(gradient)[tensor]);
    sizes.push_back(static_cast<std::int64_t>(place.floats));
    done += size;
  }
  if (places.empty()) return;
  // A copy, because the next micro-batch writes where this one did.
  other_buffers_ = pass.bytes.clone();
  const at::Tensor all = at::tensor(at::ArrayRef<float>(proofs)).to(gradient.device());
  at::_foreach_copy_(places, all.split_with_sizes(sizes));
}

at::Tensor TrainingModule::buffer_bytes(std::size_t tensor) const {
  std::int64_t first = 0;
  for (std::size_t i = parameters_.size(); i < tensor; ++i) {
    const TensorPlace& place = layout_.tensors()[i];
    if (!place.is_float()) first += static_cast<std::int64_t>(place.spec.bytes());
  }
  return other_buffers_.narrow(0, first, static_cast<std::int64_t>(layout_.tensors()[tensor].spec.bytes()));
}

}  // namespace rekindle::model
