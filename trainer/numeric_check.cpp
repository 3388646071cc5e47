#include "trainer/numeric_check.hpp"

#include <cstddef>
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
  const auto result = task.train(0, 0, memory, aborted);
  task.end_of_steps();
  if (!result) return forward_error(result.error());
  GradientMemory gradients(task.place());
  REKINDLE_TRY(const std::span<const float> gradient, gradients.on_host(memory));
  Computed computed{{}, result->loss};
  for (const GradientTensor& tensor : task.gradient_tensors())
    computed.tensors.push_back(hash128(std::as_bytes(gradient.subspan(tensor.first, tensor.count))));
  return computed;
}

}  // namespace

Result<NumericCheck> check_numerics(Task& task, std::span<float> gradient, const std::atomic<bool>& aborted) {
  REKINDLE_TRY(const Computed first, compute(task, gradient, aborted));
  REKINDLE_TRY(const Computed second, compute(task, gradient, aborted));
  NumericCheck check{first.all().hex(), ""};
  if (first.all() == second.all()) return check;
  check.mismatch = "the loss";
  const std::vector<GradientTensor> tensors = task.gradient_tensors();
  for (std::size_t i = tensors.size(); i-- > 0;) {
    if (!(first.tensors[i] == second.tensors[i])) check.mismatch = tensors[i].name;
  }
  return check;
}

}  // namespace rekindle::trainer
