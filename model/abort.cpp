#include "model/abort.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

namespace rekindle::model {
namespace {

// LibTorch calls the kernel of the first key in the set of an operator's keys. This key comes before
// autograd's, has no kernels of its own, and is in the set of a thread only on demand. Autograd carries a
// thread's keys from the forward pass to the backward pass.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local const std::atomic<bool>* aborted_flag = nullptr;

void check(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  throw_if_aborted();
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&check>());
}

}  // namespace

void throw_if_aborted() {
  if (aborted_flag == nullptr || !*aborted_flag) return;
  if (torch::autograd::get_current_graph_task_id() >= 0) throw AbortedInBackward();
  throw Aborted();
}

AbortGuard::AbortGuard(const std::atomic<bool>& aborted, bool each_operator) {
  aborted_flag = &aborted;
  c10::impl::tls_set_dispatch_key_included(kKey, each_operator);
}

AbortGuard::~AbortGuard() {
  c10::impl::tls_set_dispatch_key_included(kKey, false);
  aborted_flag = nullptr;
}

}  // namespace rekindle::model
