// A model's replica on one device: parameters and optimizer state in arenas, leaves computed into gradient
// memory that belongs to somebody else, and the update in one pass.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "optim/optimizer.hpp"

namespace rekindle::model {

struct ModelConfig {
  std::string model = "vgg11";  // "vgg11", "mnist-cnn"
  int classes = 10;
  int channels = 3, image_size = 224;
  double dropout = 0.5;    // vgg11's two; mnist-cnn has its own (0.25, 0.5) unless dropout is 0
  std::uint64_t seed = 1;  // of the initial values
  optim::Options optimizer = {.momentum = 0.9};
  double label_smoothing = 0;  // of the training loss, as in torch.nn.CrossEntropyLoss
  std::string device = "cpu";  // "cpu", "cuda:0"
  int threads = 1;             // intra-op threads
};

struct LeafResult {
  double loss = 0;  // mean over the leaf's images
  std::int64_t correct = 0, count = 0;
};

class Replica {
 public:
  // Initial values: torchvision's, from `seed` alone.
  static Result<std::unique_ptr<Replica>> make(const ModelConfig& config);
  virtual ~Replica() = default;

  // Parameters, buffers, optimizer tensors in canonical order. On CPU the spans are the live state; on a GPU
  // they are a host copy that download() fills and upload() sends back.
  virtual checkpoint::State state() = 0;
  virtual Status download() = 0;
  virtual Status upload() = 0;
  // The memory that update() changes, parameters first: arenas of arena_floats() floats that the state's
  // spans lie in. None on a GPU, where it is not the host's.
  virtual std::vector<std::span<const std::byte>> arenas() = 0;

  // Floats in the gradient arena (every tensor starts at a multiple of 16 floats; the padding is part of it).
  virtual std::size_t arena_floats() const = 0;

  // Forward and backward of one leaf in training mode: the gradient of the mean loss goes to `gradient`
  // (arena_floats() floats of host memory, all overwritten, padding zero). All randomness (dropout) comes
  // from `dropout_key`. `aborted` is looked at between layers, forward and backward: then the error
  // is ErrorKind::kAborted.
  virtual Result<LeafResult> train_leaf(std::span<const float> images, std::span<const std::int64_t> labels,
                                        std::uint64_t dropout_key, std::span<float> gradient,
                                        const std::atomic<bool>& aborted) = 0;
  // Loss is the sum over the images here.
  virtual Result<LeafResult> evaluate(std::span<const float> images,
                                      std::span<const std::int64_t> labels) = 0;

  // One pass over arena elements [first, first + sum.size()): gradient = step.scale * sum, then the
  // optimizer's update. `first` and the size are multiples of 16 but at the end.
  virtual void update(std::size_t first, std::span<const float> sum, const optim::Step& step) = 0;
  // A sync point: every update() has been applied to the state.
  virtual Status finish_update() = 0;
};

// What makes the bits, beside the configuration: LibTorch's version and build, CPU capability, device,
// threads. A JSON object with string values.
std::string numeric_fingerprint(const ModelConfig& config);

}  // namespace rekindle::model
