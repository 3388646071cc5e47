// The smallest task: one tensor of 16 floats, whose gradient is a function of the state and the micro-batch.
#pragma once

#include <array>
#include <utility>

#include "base/random.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

class ToyTask : public Task {
 public:
  static constexpr std::size_t kFloats = 16, kWeights = 10;  // followed by a bias of 4 floats and padding

  Status initialize() override {
    parameters_.fill(0.5F);
    return {};
  }
  checkpoint::State state() override {
    checkpoint::TensorSpec weight{
        "weight", checkpoint::Dtype::kFloat32, {5, 2}, checkpoint::Role::kParameter};
    checkpoint::TensorSpec bias{"bias", checkpoint::Dtype::kFloat32, {4}, checkpoint::Role::kParameter};
    const std::span<float> all(parameters_);
    return {{weight, std::as_writable_bytes(all.subspan(0, kWeights))},
            {bias, std::as_writable_bytes(all.subspan(kWeights, 4))}};
  }
  Status download() override { return {}; }
  Status upload() override { return {}; }
  Arenas arenas() override { return {std::as_bytes(std::span(parameters_))}; }

  std::size_t gradient_floats() const override { return kFloats; }
  std::vector<GradientTensor> gradient_tensors() const override {
    return {{"weight", 0, kWeights}, {"bias", kWeights, 4}};
  }
  FloatRange parameter_floats() const override { return {0, kFloats}; }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  void expect_steps(std::uint64_t, std::vector<int>, std::vector<int>) override {}
  void end_of_steps() override {}
  Result<MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                 const std::atomic<bool>& aborted) override {
    if (aborted) return fail("aborted");
    Rng rng(stream_key(1, Draws::kDropout, {step, static_cast<std::uint64_t>(micro_batch)}));
    for (std::size_t i = 0; i < kFloats; ++i)
      gradient[i] = i < kWeights + 4 ? parameters_[i] * rng.unit() : 0;
    return MicroBatchResult{rng.unit(), {{1, 2}}};
  }
  Result<EvaluationResult> evaluate(std::uint64_t, std::uint64_t count, const std::atomic<bool>&) override {
    return EvaluationResult{{0.5 * static_cast<double>(count), count}, {{1, count}}};
  }
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    for (std::size_t i = 0; i < sum.size(); ++i)
      parameters_[first + i] -= static_cast<float>(step.learning_rate) * step.scale * sum[i];
  }
  Status finish_update() override { return {}; }
  std::string fingerprint() const override { return "{}"; }
  std::string describe_machine() const override { return "a toy"; }

 private:
  std::array<float, kFloats> parameters_ = filled();
  static std::array<float, kFloats> filled() {
    std::array<float, kFloats> all{};
    all.fill(0.5F);
    return all;
  }
};

}  // namespace rekindle::trainer
