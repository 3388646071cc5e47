// One replica of a model on one device: its state in memory, micro-batches computed into gradient memory that
// belongs to somebody else, and the update. Includes nothing of LibTorch.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/state.hpp"
#include "optim/groups.hpp"
#include "optim/optimizer.hpp"
#include "trainer/arenas.hpp"
#include "trainer/state_layout.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

struct ModelRow;

// What a model is built from, and how it is trained.
struct ModelConfig {
  std::string model = "vgg11";  // model/models.hpp
  int classes = 10;
  int channels = 3, image_size = 224;
  std::optional<double> dropout = {};                     // nullopt: the model's own
  int layers = 4, heads = 4, width = 256, context = 256;  // gpt
  std::map<std::string, std::string> own_options = {};    // ModelOptions::own
  std::uint64_t seed = 1;                                 // of the initial values
  optim::Options optimizer = {.momentum = 0.9};
  optim::GroupOptions groups = {};
  double average = 0;           // decay of the moving average; 0: none
  bool counts_updates = false;  // the state has a counter of updates, because a step may have none
  int micro_batches = 1;        // in a step
  double label_smoothing = 0;   // of the training loss, as in torch.nn.CrossEntropyLoss
  bool bf16 = false;            // autocast to bfloat16
  bool needs_accuracy = false;  // the run's best checkpoint is chosen by it or by top5
  bool tf32 = false;            // products of float32 matrices in TF32, on a GPU
  std::string device = "cpu";   // as ComputeDevice::open() has it
  int threads = 1;              // intra-op threads
  // Rows of models beside the built-in ones; the owner keeps them longer than any replica.
  std::span<const ModelRow* const> more_models = {};
};

// Refuses what cannot be built: an unknown model or optimizer, images too small, one class for a model
// without a loss of its own, a best checkpoint by an accuracy that the model does not have, numbers out of
// range (ExitCode::kConfig).
Status check_config(const ModelConfig& config);

// The samples of a micro-batch: images with a label each, or contexts of tokens with the next token as the
// label of each.
struct Samples {
  std::span<const float> images = {};         // [images, channels, side, side]
  bool on_device = false;                     // the images are at Replica::place()
  std::span<const std::int64_t> tokens = {};  // [contexts, length]
  std::span<const std::int64_t> labels = {};
};

// The result of an evaluation: its sums, and for each label the class that the model names (empty: it names
// none).
struct Answers {
  trainer::EvaluationResult sums;
  std::vector<std::int64_t> predicted = {};
};

class Replica {
 public:
  // The initial values are a function of the seed. Errors (ExitCode::kConfig): those of check_config(); a
  // module that cannot be trained.
  static Result<std::unique_ptr<Replica>> make(const ModelConfig& config);
  virtual ~Replica() = default;

  // All values as they were at first.
  virtual Status initialize() = 0;

  virtual const trainer::StateLayout& layout() const = 0;
  virtual device::Place place() const = 0;
  // Further names of tensors that the model shares between modules.
  virtual const std::vector<checkpoint::OtherName>& other_names() const = 0;
  // As those of trainer::Task.
  virtual checkpoint::State state() = 0;
  virtual Status download() = 0;
  virtual Status upload() = 0;
  virtual Result<std::optional<Hash128>> digest() = 0;
  virtual trainer::Arenas arenas() = 0;

  // Forward and backward pass in training mode. The gradient of the mean loss goes to `gradient`,
  // layout().floats() floats at place(), all of which are written. All random numbers come from `key`.
  // `aborted` is looked at before each operator: then the error is ErrorKind::kAborted.
  virtual Result<trainer::MicroBatchResult> train(const Samples& samples, std::uint64_t key,
                                                  std::span<float> gradient,
                                                  const std::atomic<bool>& aborted) = 0;
  // Waits until everything that train() has begun is over.
  virtual Status settle() = 0;
  // In evaluation mode, with the moving average if there is one that has been updated. All random numbers
  // come from `key`.
  virtual Result<Answers> evaluate(const Samples& samples, std::uint64_t key,
                                   const std::atomic<bool>& aborted) = 0;

  // As those of trainer::Task.
  virtual void update(std::size_t first, std::span<const float> sum, const optim::Step& step) = 0;
  virtual Status finish_update() = 0;
};

struct StateDescription {
  checkpoint::StateSpec tensors;                        // in canonical order
  std::vector<checkpoint::OtherName> other_names = {};  // of tensors that the model shares between modules
};
// What Replica::state() has, for a model that is not kept. Errors: those of Replica::make().
Result<StateDescription> describe_state(const ModelConfig& config);

// What makes the bits, beside the configuration: LibTorch's version and build, CPU capability, device,
// threads. A JSON object with string values. `gpu`: the name of the GPU, or empty.
std::string numeric_fingerprint(const ModelConfig& config, const std::string& gpu);

}  // namespace rekindle::model
