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

struct Value {
  std::string name;
  bool is_parameter = false;
  Hash128 hash;
};

// Of each parameter and buffer.
Result<std::vector<Value>> values_of(Task& task) {
  std::vector<Value> values;
  REKINDLE_CHECK(task.download());  // also on a CPU: what a script's own optimizer uses is a copy
  for (const checkpoint::Tensor& tensor : task.state()) {
    if (tensor.spec.role != checkpoint::Role::kOptimizer)
      values.push_back(
          {tensor.spec.name, tensor.spec.role == checkpoint::Role::kParameter, hash128(tensor.bytes)});
  }
  return values;
}

std::string hash_of(const std::vector<Value>& values) {
  Hasher128 hasher;
  for (const Value& value : values) hasher.update(std::as_bytes(std::span(&value.hash, 1)));
  return hasher.digest().hex();
}

}  // namespace

Result<NumericCheck> check_numerics(Task& task, std::span<float> gradient, const std::atomic<bool>& aborted,
                                    const TestSamples& tests) {
  REKINDLE_TRY(const std::vector<Value> before, values_of(task));
  REKINDLE_TRY(const Computed first, compute(task, gradient, aborted));
  REKINDLE_CHECK(evaluate(task, tests, aborted));
  REKINDLE_TRY(const Computed second, compute(task, gradient, aborted));
  NumericCheck check{first.all().hex(), hash_of(before), "", ""};
  REKINDLE_TRY(const std::vector<Value> after, values_of(task));
  const auto kept = [](const Value& one, const Value& other) {
    return !one.is_parameter || one.hash == other.hash;
  };
  if (const auto changed = std::ranges::mismatch(before, after, kept).in1; changed != before.end()) {
    check.changed = changed->name;
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
