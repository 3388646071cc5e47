#include "trainer/numeric_check.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "trainer/gradient_memory.hpp"

namespace rekindle::trainer {
namespace {

struct Computed {
  std::vector<Hash128> tensors;  // of the gradient, in canonical order
  double loss = 0;

  Hash128 all() const {
    Hasher128 hasher;
    hasher.update(std::as_bytes(std::span(tensors)));
    hasher.update(std::as_bytes(std::span(&loss, 1)));
    return hasher.digest();
  }
};

Result<Computed> compute(Task& task, std::span<float> memory, const std::atomic<bool>& aborted) {
  task.expect_steps(0, {0}, {0});
  auto result = task.train(0, 0, memory, aborted);
  while (!result && result.error().kind == ErrorKind::kNotYet && !aborted)
    result = task.train(0, 0, memory, aborted);
  task.end_of_steps();
  if (!result) return forward_error(result.error());
  GradientMemory gradients(task.place());
  REKINDLE_TRY(const std::span<const float> gradient, gradients.on_host(memory));
  Computed computed{{}, result->loss};
  for (const GradientTensor& tensor : task.gradient_tensors())
    computed.tensors.push_back(hash128(std::as_bytes(gradient.subspan(tensor.first, tensor.count))));
  return computed;
}

Status evaluate(Task& task, const TestSamples& tests, const std::atomic<bool>& aborted) {
  if (tests.count == 0) return {};
  auto result = task.evaluate(tests.first, tests.count, aborted);
  while (!result && result.error().kind == ErrorKind::kNotYet && !aborted)
    result = task.evaluate(tests.first, tests.count, aborted);
  return result ? Status{} : forward_error(result.error());
}

// Of each parameter, its name and hash.
Result<std::vector<std::pair<std::string, Hash128>>> parameters_of(Task& task) {
  std::vector<std::pair<std::string, Hash128>> parameters;
  REKINDLE_CHECK(task.download());  // also on a CPU: what a script's own optimizer uses is a copy
  for (const checkpoint::Tensor& tensor : task.state()) {
    if (tensor.spec.role == checkpoint::Role::kParameter)
      parameters.emplace_back(tensor.spec.name, hash128(tensor.bytes));
  }
  return parameters;
}

// Of parameters and buffers, as they are on the host.
std::string hash_of_values(Task& task) {
  Hasher128 hasher;
  for (const checkpoint::Tensor& tensor : task.state())
    if (tensor.spec.role != checkpoint::Role::kOptimizer) hasher.update(tensor.bytes);
  return hasher.digest().hex();
}

}  // namespace

Result<NumericCheck> check_numerics(Task& task, std::span<float> gradient, const std::atomic<bool>& aborted,
                                    const TestSamples& tests) {
  REKINDLE_TRY(const auto before, parameters_of(task));
  const std::string values = hash_of_values(task);
  REKINDLE_TRY(const Computed first, compute(task, gradient, aborted));
  REKINDLE_CHECK(evaluate(task, tests, aborted));
  REKINDLE_TRY(const Computed second, compute(task, gradient, aborted));
  NumericCheck check{first.all().hex(), values, "", ""};
  REKINDLE_TRY(const auto after, parameters_of(task));
  if (const auto changed = std::ranges::mismatch(before, after).in1; changed != before.end()) {
    check.changed = changed->first;
    return check;
  }
  if (first.all() == second.all()) return check;
  check.mismatch = "the loss";
  const std::vector<GradientTensor> tensors = task.gradient_tensors();
  for (std::size_t i = tensors.size(); i-- > 0;) {
    if (!(first.tensors[i] == second.tensors[i])) check.mismatch = tensors[i].name;
  }
  return check;
}

}  // namespace rekindle::trainer
