#include "model/unregistered.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>

#include "base/text.hpp"

namespace rekindle::model {
namespace {

constexpr std::size_t kLooks = 2;

// The leaves that get a gradient in the backward pass of `loss`, but for those of `registered`.
std::vector<at::Tensor> leaves_of(const at::Tensor& loss, const std::vector<at::Tensor>& registered) {
  std::unordered_set<const void*> known;
  for (const at::Tensor& tensor : registered) known.insert(tensor.unsafeGetTensorImpl());
  std::vector<at::Tensor> leaves;
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<std::shared_ptr<torch::autograd::Node>> open;
  const auto add = [&](const std::shared_ptr<torch::autograd::Node>& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  add(loss.grad_fn());
  while (!open.empty()) {
    const std::shared_ptr<torch::autograd::Node> node = std::move(open.back());
    open.pop_back();
    const auto leaf = std::dynamic_pointer_cast<torch::autograd::AccumulateGrad>(node);
    if (leaf && !known.contains(leaf->variable.unsafeGetTensorImpl())) leaves.push_back(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) add(edge.function);
  }
  return leaves;
}

}  // namespace

Status UnregisteredWeights::look(const at::Tensor& loss, const std::vector<at::Tensor>& registered) {
  if (looks_ == kLooks) return {};
  ++looks_;
  std::vector<at::Tensor> leaves = leaves_of(loss, registered);
  const auto again = std::ranges::find_if(leaves, [this](const at::Tensor& leaf) {
    return std::ranges::any_of(found_, [&leaf](const at::Tensor& found) { return found.is_same(leaf); });
  });
  const bool wrong = again != leaves.end();
  const std::string shape = wrong ? at::str(again->sizes()) : std::string();
  found_ = looks_ == kLooks ? std::vector<at::Tensor>() : std::move(leaves);
  if (!wrong) return {};
  return fail(
      ExitCode::kConfig,
      str("the model computes with a trainable tensor of shape ", shape, " that it has not registered"),
      "register_module() or register_parameter() in its constructor; set_requires_grad(false) if it is not "
      "trained");
}

}  // namespace rekindle::model
