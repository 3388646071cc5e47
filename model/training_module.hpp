// A torch::nn::Module as a trainer needs it: its values and gradients are in the trainer's memory, and each
// micro-batch is a function of the values, the samples and a key.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/any.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/state.hpp"
#include "model/gradient_places.hpp"
#include "model/metrics.hpp"
#include "model/model.hpp"
#include "model/models.hpp"
#include "model/pass.hpp"
#include "model/recorded_passes.hpp"
#include "model/unregistered.hpp"
#include "trainer/state_layout.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

struct TrainingOptions {
  double label_smoothing = 0;  // as in torch.nn.CrossEntropyLoss
  bool bf16 = false;           // autocast; values, gradients and the update stay float32
  std::int64_t classes = 0;  // of the run: an evaluation measures metrics_of() them. The model may have more.
  bool needs_accuracy = false;  // outputs that stand for no classes are an error
};

// ModelRow::check(). An exception is an error, too.
Status check_options(const ModelRow& row, const ModelOptions& options);

class TrainingModule {
 public:
  // Draws initial values from `seed`. Errors (ExitCode::kConfig): a module that cannot be trained here.
  static Result<std::unique_ptr<TrainingModule>> make(const ModelRow& row, const ModelOptions& model,
                                                      const TrainingOptions& options, std::uint64_t seed,
                                                      at::Device device);

  // Parameters, then buffers, in the module's order. A tensor with two names has the first one.
  const checkpoint::StateSpec& tensors() const { return tensors_; }
  // The further names of such tensors.
  const std::vector<checkpoint::OtherName>& other_names() const { return other_names_; }

  // From now on the module's values are in `values`, a flat float32 tensor on its device by `layout`, which
  // gets the module's current values. Call once.
  Status bind(const trainer::StateLayout& layout, const at::Tensor& values);

  // Forward and backward pass of one micro-batch from the bound values. The gradient goes to `gradient`, a
  // flat tensor on the device by the layout: header, gradients, new values of buffers; the rest is zero.
  // Errors: ErrorKind::kAborted; those of the module.
  Result<trainer::MicroBatchResult> train(const TrainingBatch& batch, std::uint64_t key,
                                          const at::Tensor& gradient, const std::atomic<bool>& aborted);
  // The value that the last micro-batch gave to a buffer that is not float32: its bytes, uint8, on the
  // device.
  at::Tensor buffer_bytes(std::size_t tensor) const;

  // The loss in evaluation mode, from the bound values or from others by the same layout. Random numbers of
  // the model come from `key`. Error: ErrorKind::kAborted.
  Result<Answers> evaluate(const TrainingBatch& batch, std::uint64_t key, const at::Tensor& values,
                           const std::atomic<bool>& aborted);

 private:
  TrainingModule(torch::nn::AnyModule module, const ModelRow& row, const TrainingOptions& options);
  Status collect();
  Status check_unchanged() const;
  Status check_views() const;
  // Refuses a forward or backward pass that changed a parameter in place, or lost a buffer. `versions`:
  // before it.
  Status check_values_kept(const std::vector<std::uint32_t>& versions) const;
  Status check_buffers_kept() const;
  std::vector<std::uint32_t> versions() const;
  // Starts the operators of a micro-batch; `finish` waits for them, and writes what the host has to know.
  Result<Pass> start(const TrainingBatch& batch, const at::Tensor& gradient);
  Status start_rest(Pass& pass, const at::Tensor& gradient);
  Result<trainer::MicroBatchResult> finish(const Pass& pass, const at::Tensor& gradient,
                                           std::uint64_t learned);
  void load_buffers(const at::Tensor& values);
  void store_buffers(Pass& pass, const at::Tensor& gradient);
  void finish_buffers(const Pass& pass, const at::Tensor& gradient, std::vector<float>& header);
  at::Tensor view_of(const at::Tensor& memory, std::size_t tensor) const;
  // All of them, of gradient memory. Kept for the next micro-batch, which most often has the same memory.
  const std::vector<at::Tensor>& views_of(const at::Tensor& gradient);
  std::vector<std::string> metrics() const { return metrics_of(row_.samples, options_.classes); }
  // Whether the columns of `outputs` stand for classes. A loss of the row's own may be of other columns, such
  // as those of an embedding: then the metrics have no values.
  bool names_classes(const at::Tensor& outputs) const {
    return row_.has_accuracy && (row_.loss == nullptr || outputs.size(1) == options_.classes);
  }
  // The model's answer, [targets, classes] float32. With a loss of the row's own, any number of columns.
  Result<at::Tensor> answer(const TrainingBatch& batch, const at::Tensor& targets);
  // The mean loss over the targets, a scalar. `smoothing`: of cross-entropy.
  Result<at::Tensor> loss(const at::Tensor& outputs, const at::Tensor& targets, double smoothing) const;

  torch::nn::AnyModule module_;
  const ModelRow& row_;
  const TrainingOptions options_;
  checkpoint::StateSpec tensors_;
  std::vector<checkpoint::OtherName> other_names_;
  std::vector<at::Tensor> parameters_, buffers_;
  std::vector<bool> trains_;  // the parameters that are not frozen
  // Who held each buffer after the model was made: the module's table, most often a field, and buffers_.
  std::vector<std::size_t> holders_;
  trainer::StateLayout layout_;
  at::Tensor values_;
  std::unique_ptr<GradientPlaces> places_;
  std::unique_ptr<RecordedPasses> passes_;
  UnregisteredWeights unregistered_;
  std::vector<at::Tensor> value_views_, gradient_views_;
  const void* gradient_ = nullptr;  // of gradient_views_
  at::Tensor other_buffers_;        // Pass::bytes of the last micro-batch
};

}  // namespace rekindle::model
