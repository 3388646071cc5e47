// The computation of a trainer: the interface between the step loop and a model with its data. trainer/ and
// all modules below it do not use LibTorch; a program that trains its own model implements this class.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "device/device.hpp"
#include "optim/optimizer.hpp"
#include "trainer/arenas.hpp"

namespace rekindle::trainer {

// A sum over samples, or over parts of them such as tokens. Its mean is reported; with count 0 nothing is.
struct MetricSum {
  double sum = 0;  // from -1e9 to 1e9; reported to 1e-6, whole numbers exactly
  std::uint64_t count = 0;
};

struct MicroBatchResult {
  double loss = 0;                      // mean over the samples
  std::vector<MetricSum> metrics = {};  // in the order of Task::metrics()
  double waited_ms = 0;                 // time spent waiting for samples, which are prepared in advance
};

struct EvaluationResult {
  MetricSum loss;
  std::vector<MetricSum> metrics = {};  // in the order of Task::metrics()
};

// The gradient of a parameter: elements [first, first + count) of the gradient memory.
struct GradientTensor {
  std::string name;
  std::size_t first = 0, count = 0;
};

// Elements [first, end) of the gradient memory; both are multiples of 16.
struct FloatRange {
  std::size_t first = 0, end = 0;
};

// Marks an error of a task: this trainer ends with it (Kept::failure). An aborted computation is no error of
// the task.
inline tl::unexpected<Error> task_error(Error error) {
  if (error.kind != ErrorKind::kAborted) error.kind = ErrorKind::kTask;
  return forward_error(std::move(error));
}

// Whether samples may be read at a later try.
inline bool comes_later(const Error& error) {
  return error.kind == ErrorKind::kSystem || error.kind == ErrorKind::kNotYet;
}

// Whether the samples themselves cannot be used: on this machine, or on every machine.
inline bool samples_unusable(const Error& error) {
  return error.kind == ErrorKind::kDamage || error.kind == ErrorKind::kChangedData;
}
// An error of the computation of a step or of an evaluation. If the samples cannot be used, this trainer
// keeps its state, and the coordinator decides what follows; otherwise the trainer ends.
inline tl::unexpected<Error> computation_error(Error error) {
  if (samples_unusable(error) || error.kind == ErrorKind::kUnreadable) return forward_error(std::move(error));
  return task_error(std::move(error));
}

inline Status of_task(Status status) {
  if (!status) return task_error(std::move(status.error()));
  return status;
}

// The result of every call depends only on the options of the run, the state and the arguments: never on the
// trainer, the time or earlier calls. One thread makes all calls.
class Task {
 public:
  virtual ~Task() = default;
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Where gradients and their sums are: the spans of train() and update() are memory of this device, and both
  // only put work on its stream. By default, host memory.
  virtual device::Place place() const { return {}; }

  // ---- the state ----

  // Gives every tensor its initial value, a function of the run's seed. A new Task already has these values.
  virtual Status initialize() = 0;
  // Parameters, buffers and optimizer tensors in canonical order. The spans are in host memory and stay valid
  // until initialize(). On a CPU they are the state itself; on a GPU they are a copy that download() fills
  // and upload() sends to the device.
  virtual checkpoint::State state() = 0;
  virtual Status download() = 0;
  virtual Status upload() = 0;
  // A digest of the state that needs no download(), for a comparison with other trainers of the run; nullopt:
  // there is none.
  virtual Result<std::optional<Hash128>> digest() { return std::nullopt; }
  // The host memory that update() changes: arenas of gradient_floats() floats that contain the spans of
  // state(). Empty if the state is not in host memory.
  virtual Arenas arenas() = 0;

  // ---- one micro-batch ----

  // The names of what train() and evaluate() measure besides the loss, such as "accuracy": at most
  // kMostMetrics. With "test_" before it, none is another key of metrics.jsonl.
  virtual std::vector<std::string> metrics() const = 0;
  virtual std::size_t gradient_floats() const = 0;
  virtual std::vector<GradientTensor> gradient_tensors() const = 0;
  // The part of the gradient memory with the gradients of all parameters. --clip-norm limits its norm.
  virtual FloatRange parameter_floats() const = 0;

  // The micro-batches that are computed next: `first` of `step`, then `all` of each later step. Their samples
  // may be prepared in advance, until end_of_steps().
  virtual void expect_steps(std::uint64_t step, std::vector<int> all, std::vector<int> first) = 0;
  virtual void end_of_steps() = 0;

  // Forward and backward pass of one micro-batch of `step`, in the order of expect_steps(). Writes the mean
  // loss's gradient to `gradient` (gradient_floats() floats, padding with zero). All random
  // numbers come from (seed, step, micro_batch). `aborted` is checked at least between two layers; if it is
  // set, the error has kind kAborted. Kind kSystem, of evaluate(), too: not readable now (SampleWait). Kind
  // kNotYet: the samples are not there after kSampleLook (sample_wait.hpp); the same call waits further.
  virtual Result<MicroBatchResult> train(std::uint64_t step, int micro_batch, std::span<float> gradient,
                                         const std::atomic<bool>& aborted) = 0;
  // Evaluates test samples [first, first + count). If `aborted` is set, it may end early, as train() does.
  virtual Result<EvaluationResult> evaluate(std::uint64_t first, std::uint64_t count,
                                            const std::atomic<bool>& aborted) = 0;
  // The samples that this process has left out since the last call, because they cannot be used: a line each.
  virtual std::vector<std::string> take_skipped() { return {}; }

  // ---- the update ----

  // A factor of the learning rate of a step, a function of the step alone.
  virtual Result<double> rate_factor(std::uint64_t step) {
    std::ignore = step;
    return 1.0;
  }
  // The optimizer's update of elements [first, first + sum.size()) with gradient = step.scale * sum. `first`
  // and the size are multiples of 16, except at the end. The pieces of one step come in order and cover each
  // element once.
  virtual void update(std::size_t first, std::span<const float> sum, const optim::Step& step) = 0;
  // Returns when every update() has been applied to the state.
  virtual Status finish_update() = 0;

  // ---- the machine ----

  // Properties that can change the bits on another machine (library versions, instruction set): a JSON object
  // of strings.
  virtual std::string fingerprint() const = 0;
  // The same for the user, in one line.
  virtual std::string describe_machine() const = 0;
};

}  // namespace rekindle::trainer
