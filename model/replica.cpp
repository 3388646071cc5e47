#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "model/loss.hpp"
#include "model/model.hpp"
#include "model/networks.hpp"
#include "model/open_device.hpp"
#include "model/optimizer.hpp"
#include "model/state_spec.hpp"

namespace rekindle::model {
namespace {

Error abandoned() { return {ExitCode::kGaveUp, "the micro-batch was abandoned", {}, ErrorKind::kAborted}; }

// LibTorch reports lack of memory and failures of the device by exceptions; they end here.
template <class F>
auto without_exceptions(const char* doing, F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const c10::Error& error) {
    return fail(str("LibTorch failed while ", doing, ": ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return fail(str("out of memory while ", doing), "use a smaller batch or more micro-batches");
  }
}

// On a CPU they begin a page: checkpoints are written from here past the page cache.
at::Tensor arena_of_zeros(std::size_t floats, at::Device device) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const auto size = static_cast<std::int64_t>(floats);
  if (!device.is_cpu()) return at::zeros({size}, options);
  const at::Tensor memory = at::empty({size + static_cast<std::int64_t>(kPageFloats)}, options);
  void* begin = memory.data_ptr<float>();
  const std::size_t all = memory.nbytes();
  std::size_t room = all;
  std::align(kPageFloats * sizeof(float), floats * sizeof(float), begin, room);
  return memory.narrow(0, static_cast<std::int64_t>((all - room) / sizeof(float)), size).zero_();
}

class TorchReplica final : public Replica {
 public:
  TorchReplica(ModelConfig config, at::Device device)
      : config_(std::move(config)),
        device_(device),
        layout_(parameter_layout(config_)),
        optimizer_(config_.optimizer),
        arenas_(1 + optimizer_arenas(config_).size()) {
    const c10::InferenceMode guard;
    for (at::Tensor& arena : arenas_) arena = arena_of_zeros(layout_.arena_floats, device_);
    if (!device_.is_cpu()) {
      for (std::size_t a = 0; a < arenas_.size(); ++a)
        mirrors_.push_back(arena_of_zeros(layout_.arena_floats, at::kCPU));
      gradient_ = arena_of_zeros(layout_.arena_floats, device_);
    }
    const std::vector<at::Tensor> parameters = tensor_views(layout_, arenas_[0]);
    initialize(config_, layout_, tensor_views(layout_, host_arenas()[0]));
    network_ = make_network(config_, parameters);
  }

  checkpoint::State state() override {
    const checkpoint::StateSpec spec = state_spec(config_).value();
    checkpoint::State state;
    for (const at::Tensor& arena : host_arenas()) {
      float* floats = arena.data_ptr<float>();
      for (const TensorPlace& place : layout_.tensors)
        state.push_back(
            {spec[state.size()], std::as_writable_bytes(std::span(floats + place.offset, place.floats))});
    }
    return state;
  }

  Status download() override { return copy_arenas(arenas_, mirrors_, "copying the state from the device"); }
  Status upload() override { return copy_arenas(mirrors_, arenas_, "copying the state to the device"); }

  std::vector<std::span<const std::byte>> arenas() override {
    std::vector<std::span<const std::byte>> arenas;
    if (!device_.is_cpu()) return arenas;
    for (const at::Tensor& arena : arenas_) arenas.push_back(std::as_bytes(floats_of(arena)));
    return arenas;
  }

  std::size_t arena_floats() const override { return layout_.arena_floats; }

  Result<LeafResult> train_leaf(std::span<const float> images, std::span<const std::int64_t> labels,
                                std::uint64_t dropout_key, std::span<float> gradient,
                                const std::atomic<bool>& aborted) override {
    REKINDLE_CHECK(check_batch(images, labels));
    if (gradient.size() != layout_.arena_floats)
      return fail(str("gradient memory of ", gradient.size(), " floats instead of ", layout_.arena_floats));
    return without_exceptions("computing a micro-batch", [&]() -> Result<LeafResult> {
      const c10::InferenceMode guard;
      use_threads();
      const at::Tensor host_gradient =
          at::from_blob(gradient.data(), {static_cast<std::int64_t>(gradient.size())});
      const at::Tensor arena = device_.is_cpu() ? host_gradient : gradient_;
      REKINDLE_TRY(const LeafResult result, forward_backward(images, labels, dropout_key, arena, aborted));
      if (!device_.is_cpu()) host_gradient.copy_(arena);
      clear_padding(gradient);
      return result;
    });
  }

  Result<LeafResult> evaluate(std::span<const float> images, std::span<const std::int64_t> labels) override {
    REKINDLE_CHECK(check_batch(images, labels));
    return without_exceptions("evaluating", [&]() -> Result<LeafResult> {
      const c10::InferenceMode guard;
      use_threads();
      Rng unused(0);
      at::Tensor x = to_device(images, labels.size());
      for (const auto& layer : network_) x = layer->forward(std::move(x), nullptr, unused);
      const at::Tensor logits = x.to(at::kCPU).contiguous();
      const Loss loss = cross_entropy(floats_of(logits), labels, {}, 0);
      return LeafResult{loss.sum, loss.correct, static_cast<std::int64_t>(labels.size())};
    });
  }

  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    if (!failure_) return;
    failure_ = without_exceptions("updating the state", [&]() -> Status {
      const c10::InferenceMode guard;
      optimizer_.update(arenas_, first, sum, step);
      return {};
    });
  }

  Status finish_update() override {
    if (failure_)
      failure_ = without_exceptions("updating the state", [&]() -> Status {
        synchronize(device_);
        return {};
      });
    return failure_;
  }

 private:
  static std::span<float> floats_of(const at::Tensor& tensor) {
    return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
  }
  const std::vector<at::Tensor>& host_arenas() const { return device_.is_cpu() ? arenas_ : mirrors_; }

  Status copy_arenas(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to,
                     const char* doing) {
    if (device_.is_cpu()) return {};
    return without_exceptions(doing, [&]() -> Status {
      const c10::InferenceMode guard;
      for (std::size_t a = 0; a < from.size(); ++a) to[a].copy_(from[a]);
      synchronize(device_);
      return {};
    });
  }

  // The number of OpenMP threads belongs to the calling thread, and it makes the bits.
  void use_threads() {
    if (std::exchange(thread_, std::this_thread::get_id()) != std::this_thread::get_id())
      at::set_num_threads(config_.threads);
  }

  Status check_batch(std::span<const float> images, std::span<const std::int64_t> labels) const {
    const auto side = static_cast<std::size_t>(config_.image_size);
    if (labels.empty() ||
        images.size() != labels.size() * static_cast<std::size_t>(config_.channels) * side * side)
      return fail(str(images.size(), " floats are not ", labels.size(), " images of ", config_.channels, "x",
                      side, "x", side));
    for (const std::int64_t label : labels)
      if (label < 0 || label >= config_.classes)
        return fail(str("label ", label, " does not belong to a model of ", config_.classes, " classes"));
    return {};
  }

  at::Tensor to_device(std::span<const float> images, std::size_t count) const {
    // from_blob wants a pointer to non-const; the first layer does not write to its input.
    return at::from_blob(
               const_cast<float*>(images.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
               {static_cast<std::int64_t>(count), config_.channels, config_.image_size, config_.image_size})
        .to(device_);
  }

  Result<LeafResult> forward_backward(std::span<const float> images, std::span<const std::int64_t> labels,
                                      std::uint64_t dropout_key, const at::Tensor& gradient_arena,
                                      const std::atomic<bool>& aborted) const {
    const std::vector<at::Tensor> gradients = tensor_views(layout_, gradient_arena);
    std::vector<Saved> saved(network_.size());
    Rng dropout(dropout_key);
    at::Tensor x = to_device(images, labels.size());
    for (std::size_t i = 0; i < network_.size(); ++i) {
      if (aborted) return forward_error(abandoned());
      x = network_[i]->forward(std::move(x), &saved[i], dropout);
    }
    const at::Tensor logits = x.to(at::kCPU).contiguous();
    at::Tensor dy = at::empty_like(logits);
    const Loss loss = cross_entropy(floats_of(logits), labels, floats_of(dy), config_.label_smoothing);
    dy = dy.to(device_);
    for (std::size_t i = network_.size(); i-- > 0;) {
      if (aborted) return forward_error(abandoned());
      dy = network_[i]->backward(std::move(dy), std::move(saved[i]), gradients);
    }
    const auto count = static_cast<std::int64_t>(labels.size());
    return LeafResult{loss.sum / static_cast<double>(count), loss.correct, count};
  }

  void clear_padding(std::span<float> gradient) const {
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const std::size_t end = layout_.tensors[i].offset + layout_.tensors[i].floats;
      const std::size_t next =
          i + 1 < layout_.tensors.size() ? layout_.tensors[i + 1].offset : layout_.arena_floats;
      std::fill(gradient.begin() + static_cast<std::ptrdiff_t>(end),
                gradient.begin() + static_cast<std::ptrdiff_t>(next), 0.0F);
    }
  }

  ModelConfig config_;
  at::Device device_;
  Layout layout_;
  DeviceOptimizer optimizer_;
  std::vector<at::Tensor> arenas_;   // parameters, then the optimizer's, on the device
  std::vector<at::Tensor> mirrors_;  // the same on the host; empty on a CPU
  at::Tensor gradient_;              // a leaf's gradient on the device; undefined on a CPU
  Network network_;
  std::thread::id thread_;
  Status failure_;  // of an update that has not been asked for yet
};

}  // namespace

Result<std::unique_ptr<Replica>> Replica::make(const ModelConfig& config) {
  REKINDLE_CHECK(check_config(config));
  REKINDLE_TRY(const at::Device device, open_device(config.device));
  return without_exceptions("building the model", [&]() -> Result<std::unique_ptr<Replica>> {
    auto replica = std::make_unique<TorchReplica>(config, device);
    REKINDLE_CHECK(replica->upload());
    return replica;
  });
}

}  // namespace rekindle::model
