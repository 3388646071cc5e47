#include "model/metrics.hpp"

#include <ATen/ATen.h>

#include <tuple>

namespace rekindle::model {

namespace {

constexpr std::int64_t kTop5 = 5;

}  // namespace

std::vector<std::string> metrics_of(data::SampleKind samples, std::int64_t classes) {
  if (classes < 2) return {};
  if (samples == data::SampleKind::kImages && classes > kTop5) return {"accuracy", "top5"};
  return {"accuracy"};
}

at::Tensor predicted_by(const at::Tensor& outputs) { return outputs.detach().argmax(1); }

at::Tensor correct_of(const at::Tensor& predicted, const at::Tensor& targets) {
  return predicted.eq(targets).sum();
}

at::Tensor in_top5_of(const at::Tensor& outputs, const at::Tensor& targets) {
  const at::Tensor best = std::get<1>(outputs.topk(kTop5, 1));
  return best.eq(targets.unsqueeze(1)).any(1).sum();
}

}  // namespace rekindle::model
