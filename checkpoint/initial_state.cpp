#include "checkpoint/initial_state.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/text.hpp"
#include "checkpoint/chunks.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr const char* kSameModel =
    "it must be of the same model, with the names that an export of a run of this model has";

std::string text_of(const TensorSpec& tensor) { return str(name_of(tensor.dtype), " ", shape_text(tensor)); }

// "classifier.6.weight" -> "classifier.6."
std::string layer_of(const std::string& name) { return name.substr(0, name.rfind('.') + 1); }

// The layer of the last parameter.
std::string head_of(const StateSpec& model) {
  std::string head;
  for (const TensorSpec& tensor : model)
    if (tensor.role == Role::kParameter) head = layer_of(tensor.name);
  return head;
}

// "momentum.classifier.6.weight" -> "classifier.6.weight"
std::string without_prefix(const std::string& name) { return name.substr(name.find('.') + 1); }

class Chooser {
 public:
  Chooser(const StateSpec& available, const StateSpec& model, bool reset_head, const std::string& source,
          const std::vector<OtherName>& others, const std::string& other_model)
      : available_(available),
        model_(model),
        reset_head_(reset_head),
        source_(source),
        other_model_(other_model),
        head_(head_of(model)) {
    for (const OtherName& other : others) others_.insert(other.name);
    for (const TensorSpec& tensor : available) by_name_.emplace(tensor.name, &tensor);
    for (const TensorSpec& tensor : model) {
      if (tensor.role == Role::kOptimizer) continue;
      weights_.insert(tensor.name);
    }
  }

  Result<StateSpec> choose() const {
    if (!reset_head_) REKINDLE_CHECK(check_classes());
    StateSpec chosen;
    REKINDLE_CHECK(take(false, chosen));
    if (with_optimizer()) REKINDLE_CHECK(take(true, chosen));
    REKINDLE_CHECK(check_extra(chosen));
    return chosen;
  }

 private:
  bool in_head(const TensorSpec& tensor) const {
    const std::string name = tensor.role == Role::kOptimizer ? without_prefix(tensor.name) : tensor.name;
    return layer_of(name) == head_;
  }
  bool wanted(const TensorSpec& tensor) const { return !reset_head_ || !in_head(tensor); }

  // The kinds of an optimizer's tensors, such as "momentum". Averages and counters are of none.
  std::set<std::string_view> optimizer_of(const StateSpec& state) const {
    std::set<std::string_view> kinds;
    for (const TensorSpec& tensor : state) {
      if (tensor.name != kUpdateCounters && !weights_.contains(tensor.name) &&
          (tensor.role == Role::kOptimizer || is_of_an_optimizer(tensor.name)))
        kinds.insert(std::string_view(tensor.name).substr(0, tensor.name.find('.')));
    }
    kinds.erase(kAverage);
    return kinds;
  }

  // All of it or nothing. Counters of updates do not fit to a head that begins at zero, and the momentum of
  // rmsprop is another one than that of sgd.
  bool with_optimizer() const {
    const std::set<std::string_view> ours = optimizer_of(model_);
    if (!ours.empty() && optimizer_of(available_) != ours) return false;
    bool any = false;
    for (const TensorSpec& tensor : model_) {
      if (tensor.role != Role::kOptimizer) continue;
      if (reset_head_ && tensor.name == kUpdateCounters) return false;
      if (!wanted(tensor)) continue;
      if (!by_name_.contains(tensor.name)) return false;
      any = true;
    }
    return any;
  }

  Status check_classes() const {
    const auto other = other_head(available_, model_);
    if (!other) return {};
    return fail(ExitCode::kConfig,
                str(source_, " is for ", other->theirs.rows(), " classes, this run has ", other->ours.rows()),
                other_model_.empty()
                    ? str("add --reset-head to start the last layer (", head_, "*) with new values")
                    : other_model_);
  }

  Status take(bool optimizer, StateSpec& chosen) const {
    for (const TensorSpec& tensor : model_) {
      if ((tensor.role == Role::kOptimizer) != optimizer || !wanted(tensor)) continue;
      const auto found = by_name_.find(tensor.name);
      if (found == by_name_.end() && is_late_counter(tensor.name)) continue;
      if (found == by_name_.end()) {
        return fail(ExitCode::kConfig, str(source_, " lacks tensor ", tensor.name),
                    hint_without(tensor.name));
      }
      const TensorSpec& theirs = *found->second;
      if (theirs.dtype != tensor.dtype || theirs.shape != tensor.shape) {
        return fail(ExitCode::kConfig,
                    str("tensor ", tensor.name, " is ", text_of(theirs), " in ", source_, ", the model's is ",
                        text_of(tensor)),
                    theirs.dtype != tensor.dtype || other_model_.empty()
                        ? "it must be of the same model, in the same precision"
                        : other_model_);
      }
      chosen.push_back(tensor);
    }
    return {};
  }

  // PyTorch's wrappers of a module put their own name before its tensors'.
  std::string hint_without(const std::string& name) const {
    for (const char* wrapper : {"module.", "_orig_mod."}) {
      if (by_name_.contains(wrapper + name))
        return str("its names begin with ", wrapper, ": save the state_dict() of the module inside");
    }
    return hint_of_others();
  }
  std::string hint_of_others() const { return other_model_.empty() ? kSameModel : other_model_; }

  // Files from before PyTorch 0.4.1 lack it, among them weights that torchvision still publishes.
  // load_state_dict() takes them, and the counter begins at 0.
  bool is_late_counter(const std::string& name) const {
    constexpr std::string_view kCounter = "num_batches_tracked";
    if (!name.ends_with(kCounter)) return false;
    return by_name_.contains(name.substr(0, name.size() - kCounter.size()) + "running_var");
  }

  // Every unused tensor must be one that may be ignored.
  Status check_extra(const StateSpec& chosen) const {
    std::set<std::string_view> used;
    for (const TensorSpec& tensor : chosen) used.insert(tensor.name);
    for (const TensorSpec& tensor : available_) {
      const std::string& name = tensor.name;
      if (used.contains(name) || others_.contains(name) || is_reset(name) ||
          tensor.role == Role::kOptimizer || is_of_an_optimizer(name))
        continue;
      return fail(ExitCode::kConfig, str(source_, " has a tensor ", name, ", which the model does not have"),
                  hint_of_others());
    }
    return {};
  }
  bool is_reset(const std::string& name) const { return reset_head_ && layer_of(name) == head_; }
  // A file does not say which tensors are an optimizer's.
  bool is_of_an_optimizer(const std::string& name) const {
    constexpr std::string_view kKnown[] = {"momentum", "square_avg", "acc_delta",
                                           "exp_avg",  "exp_avg_sq", kAverage};
    if (name == kUpdateCounters) return true;
    const std::string_view prefix = std::string_view(name).substr(0, name.find('.'));
    return std::ranges::find(kKnown, prefix) != std::end(kKnown) && weights_.contains(without_prefix(name));
  }

  const StateSpec& available_;
  const StateSpec& model_;
  const bool reset_head_;
  const std::string& source_;
  const std::string& other_model_;  // what to do about its tensors; empty: as for a model of rekindle
  std::unordered_map<std::string, const TensorSpec*> by_name_;
  std::set<std::string> weights_;  // parameters and buffers
  std::set<std::string> others_;   // further names of some of them
  std::string head_;               // the layer of the last parameter
};

}  // namespace

std::string shape_text(const TensorSpec& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape) text += str(text.empty() ? "[" : ", ", size);
  return text.empty() ? "[]" : text + "]";
}

std::optional<OtherHead> other_head(const StateSpec& available, const StateSpec& model) {
  const auto places = places_by_name(available);
  const std::string head = head_of(model);
  for (const TensorSpec& ours : model) {
    const auto found = places.find(ours.name);
    if (ours.role != Role::kParameter || layer_of(ours.name) != head || found == places.end()) continue;
    const TensorSpec& theirs = available[found->second];
    const bool same_rest = !theirs.shape.empty() && theirs.shape.size() == ours.shape.size() &&
                           std::equal(theirs.shape.begin() + 1, theirs.shape.end(), ours.shape.begin() + 1);
    if (same_rest && theirs.rows() != ours.rows()) return OtherHead{theirs, ours};
  }
  return std::nullopt;
}

void use_first_names(StateSpec& available, const std::vector<OtherName>& others) {
  std::unordered_map<std::string, std::string> first;  // by further name
  for (const OtherName& other : others) first.emplace(other.name, other.of);
  std::set<std::string> there;
  for (const TensorSpec& tensor : available) there.insert(tensor.name);
  for (TensorSpec& tensor : available) {
    const auto found = first.find(tensor.name);
    if (found != first.end() && there.insert(found->second).second) tensor.name = found->second;
  }
}

Result<StateSpec> choose_initial(const StateSpec& available, const StateSpec& model, bool reset_head,
                                 const std::string& source, const std::vector<OtherName>& others,
                                 const std::string& other_model) {
  return Chooser(available, model, reset_head, source, others, other_model).choose();
}

std::string initial_hash(const State& chosen) { return state_digest(0, chosen).hex(); }

Status keep_initial(const FilePath& file, const State& chosen) {
  if (const auto there = SafetensorsFile::open(file)) {
    const auto same = choose_initial(there->tensors(), spec_of(chosen), false, file.string());
    const auto values = same && *same == spec_of(chosen) ? read_tensors(there->source(), *same)
                                                         : Result<Tensors>(fail("others"));
    if (values && initial_hash(values->state) == initial_hash(chosen)) return {};
  }
  return write_tensors(file, chosen);
}

Status load_initial(const FilePath& file, const std::string& hash, const State& state) {
  // Not ExitCode::kConfig: no configuration is wrong, and a retry may succeed on shared storage.
  const char* const hint = "give the same --init again to write the file again";
  auto opened = SafetensorsFile::open(file);
  if (!opened) return fail(opened.error().what, hint);
  const SafetensorsFile& source = *opened;
  const auto by_name = places_by_name(source.tensors());
  State loaded;
  for (const Tensor& tensor : state) {
    const auto found = by_name.find(tensor.spec.name);
    if (found == by_name.end()) continue;
    const TensorSpec& theirs = source.tensors()[found->second];
    if (theirs.dtype != tensor.spec.dtype || theirs.shape != tensor.spec.shape) break;
    REKINDLE_CHECK(source.read(found->second, 0, tensor.bytes));
    loaded.push_back(tensor);
  }
  if (loaded.size() != by_name.size() || initial_hash(loaded) != hash) {
    return fail(str(file.string(), " is not what the run was started from"), hint);
  }
  return {};
}

}  // namespace rekindle::checkpoint
