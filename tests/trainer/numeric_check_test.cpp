#include "trainer/numeric_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "device/host_device.hpp"
#include "toy_task.hpp"

namespace rekindle::trainer {
namespace {

const std::atomic<bool> kGoOn{false};

// A task that adds the errors of a test to its gradients.
class FaultyTask final : public ToyTask {
 public:
  struct Fault {
    std::size_t at = 0;           // position in the gradient
    float first = 0, second = 0;  // added to this element in the two computations
    double loss = 0;              // added to the second loss
    bool changes_state = false;
  };
  explicit FaultyTask(const Fault& fault) : fault_(fault) {}
  Result<MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                 const std::atomic<bool>& aborted) override {
    REKINDLE_TRY(MicroBatchResult result, ToyTask::train(step, micro_batch, gradient, aborted));
    const bool first = calls_++ == 0;
    gradient[fault_.at] += first ? fault_.first : fault_.second;
    if (!first) result.loss += fault_.loss;
    if (fault_.changes_state) state().front().bytes.front() = std::byte(calls_);
    return result;
  }

 private:
  const Fault fault_;
  int calls_ = 0;
};

NumericCheck check(Task& task) {
  std::vector<float> gradient(task.gradient_floats());
  return check_numerics(task, gradient, kGoOn).value();
}
NumericCheck with(const FaultyTask::Fault& fault) {
  FaultyTask task(fault);
  return check(task);
}

TEST(NumericCheckTest, SameGradientTwice_OneHash) {
  ToyTask one, two;
  EXPECT_EQ(check(one).mismatch, "");
  EXPECT_EQ(check(one).hash.size(), 32U);
  EXPECT_EQ(check(one).hash, check(two).hash);
}

TEST(NumericCheckTest, OtherGradient_OtherHash) {
  EXPECT_NE(with({.at = 0, .first = 1e-3F, .second = 1e-3F}).hash, with({}).hash);
}

// As a model does it by at::Tensor::data(), which no version counter sees.
TEST(NumericCheckTest, ATaskThatChangesItsState_TheParameterIsNamed) {
  EXPECT_EQ(with({.changes_state = true}).changed, "weight");
  EXPECT_EQ(with({}).changed, "");
}

// Its state is on a device, and state() is a copy.
class TaskOnADevice final : public ToyTask {
 public:
  device::Place place() const override { return {device_.get(), stream_.get()}; }
  checkpoint::State state() override {
    return {{ToyTask::state().front().spec, std::as_writable_bytes(std::span(copy_))}};
  }
  Status download() override {
    const std::span<const std::byte> there = ToyTask::state().front().bytes;
    std::ranges::copy(there, std::as_writable_bytes(std::span(copy_)).begin());
    return {};
  }
  Result<MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                 const std::atomic<bool>& aborted) override {
    REKINDLE_TRY(const MicroBatchResult result, ToyTask::train(step, micro_batch, gradient, aborted));
    if (changes_state) ToyTask::state().front().bytes.front() = std::byte{1};
    return result;
  }
  bool changes_state = false;

 private:
  const std::unique_ptr<device::HostDevice> device_ = device::make_host_device();
  const std::unique_ptr<device::Stream> stream_ = std::move(device_->make_stream().value());
  std::array<float, kWeights> copy_{};
};

TEST(NumericCheckTest, ATaskThatChangesItsStateOnADevice_TheParameterIsNamed) {
  TaskOnADevice task;
  EXPECT_EQ(check(task).changed, "");
  task.changes_state = true;
  EXPECT_EQ(check(task).changed, "weight");
}

// As the rows of a table that the first micro-batch does not use.
TEST(NumericCheckTest, OtherInitialValues_OtherHashOfValues) {
  ToyTask one, other;
  other.state().front().bytes.front() = std::byte{1};
  EXPECT_EQ(check(one).values.size(), 32U);
  EXPECT_EQ(check(one).values, check(one).values);
  EXPECT_NE(check(one).values, check(other).values);
}

TEST(NumericCheckTest, PaddingIsNotCompared) { EXPECT_EQ(with({.at = 15, .second = 1}).mismatch, ""); }

TEST(NumericCheckTest, TwoComputationsThatDiffer_TheFirstTensorIsNamed) {
  EXPECT_EQ(with({.at = 0, .second = 1e-3F}).mismatch, "weight");
  EXPECT_EQ(with({.at = 13, .second = 1e-3F}).mismatch, "bias");
  EXPECT_EQ(with({.loss = 1e-9}).mismatch, "the loss");
}

TEST(NumericCheckTest, ErrorOfAComputationIsPassedOn) {
  ToyTask task;
  std::vector<float> gradient(task.gradient_floats());
  const std::atomic<bool> aborted{true};
  EXPECT_FALSE(check_numerics(task, gradient, aborted));
}

// This program links trainer/ and all modules that trainer/ needs.
TEST(Task, TrainerNeedsNoLibTorch) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t lines = 0;
  while (std::getline(maps, line)) {
    ++lines;
    EXPECT_EQ(line.find("libtorch"), std::string::npos) << line;
    EXPECT_EQ(line.find("libc10"), std::string::npos) << line;
  }
  EXPECT_GT(lines, 10U);
}

}  // namespace
}  // namespace rekindle::trainer
