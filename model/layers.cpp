#include "model/layers.hpp"

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

namespace rekindle::model {
namespace {

constexpr std::array<std::int64_t, 2> kOne = {1, 1}, kTwo = {2, 2}, kNone = {0, 0};

// y = x * w + b
class Conv3x3 final : public Layer {
 public:
  Conv3x3(LayerParameters parameters, int padding, bool first)
      : p_(std::move(parameters)), padding_{padding, padding}, first_(first) {}

  at::Tensor forward(at::Tensor x, Saved* saved, Rng&) const override {
    at::Tensor y = at::convolution(x, p_.weight, p_.bias, kOne, padding_, kOne, false, kNone, 1);
    if (saved != nullptr) saved->input = std::move(x);
    return y;
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor> gradients) const override {
    // oneDNN finds the gradient of a large weight a third faster from NCHW activations; where they are fewer
    // than the weights, copying them pays (measured: VGG11's 512-channel layers, 4 images).
    if (saved.input.numel() > p_.weight.numel())
      return keep(gradients_of(dy, saved.input, {!first_, true, true}), gradients);
    at::Tensor dx = first_ ? at::Tensor() : std::get<0>(gradients_of(dy, saved.input, {true, false, false}));
    keep(gradients_of(dy.contiguous(), saved.input.contiguous(), {false, true, true}), gradients);
    return dx;
  }

 private:
  using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // of input, weight and bias

  Gradients gradients_of(const at::Tensor& dy, const at::Tensor& x, std::array<bool, 3> wanted) const {
    return at::convolution_backward(dy, x, p_.weight, at::OptionalIntArrayRef(p_.bias.sizes()), kOne,
                                    padding_, kOne, false, kNone, 1, wanted);
  }

  at::Tensor keep(Gradients computed, std::span<const at::Tensor> gradients) const {
    gradients[p_.index].copy_(std::get<1>(computed));
    gradients[p_.index + 1].copy_(std::get<2>(computed));
    return std::get<0>(std::move(computed));
  }

  LayerParameters p_;
  std::array<std::int64_t, 2> padding_;
  bool first_;
};

// y = x w' + b
class Linear final : public Layer {
 public:
  explicit Linear(LayerParameters parameters) : p_(std::move(parameters)) {}

  at::Tensor forward(at::Tensor x, Saved* saved, Rng&) const override {
    at::Tensor y = at::addmm(p_.bias, x, p_.weight.t());
    if (saved != nullptr) saved->input = std::move(x);
    return y;
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor> gradients) const override {
    // Straight into the arena: VGG11's first is 411 MB.
    at::Tensor dw = gradients[p_.index], db = gradients[p_.index + 1];
    at::mm_out(dw, dy.t(), saved.input);
    at::sum_out(db, dy, {0});
    return at::mm(dy, p_.weight);
  }

 private:
  LayerParameters p_;
};

class Relu final : public Layer {
 public:
  at::Tensor forward(at::Tensor x, Saved* saved, Rng&) const override {
    x.relu_();
    if (saved != nullptr) saved->other = x;
    return x;
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor>) const override {
    return at::threshold_backward_out(dy, dy, saved.other, 0);
  }
};

class MaxPool2 final : public Layer {
 public:
  at::Tensor forward(at::Tensor x, Saved* saved, Rng&) const override {
    if (saved == nullptr) return at::max_pool2d(x, kTwo, kTwo);
    auto [y, indices] = at::max_pool2d_with_indices(x, kTwo, kTwo);
    saved->input = std::move(x);
    saved->other = std::move(indices);
    return y;
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor>) const override {
    return at::max_pool2d_with_indices_backward(dy, saved.input, kTwo, kTwo, kNone, kOne, false, saved.other);
  }
};

// y = x * mask, mask = bernoulli(1 - p) / (1 - p)
class Dropout final : public Layer {
 public:
  explicit Dropout(double probability) : p_(probability) {}

  at::Tensor forward(at::Tensor x, Saved* saved, Rng& rng) const override {
    if (saved == nullptr || p_ == 0) return x;
    // Drawn on the host by the project's own generator: the same mask on every device and for every LibTorch.
    at::Tensor mask = at::empty({x.numel()}, at::kFloat);
    const auto p = static_cast<float>(p_), keep = static_cast<float>(1 / (1 - p_));
    for (float& element : std::span(mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel())))
      element = rng.unit() < p ? 0.0F : keep;
    saved->other = mask.view(x.sizes()).to(x.device());
    return x * saved->other;
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor>) const override {
    return saved.other.defined() ? dy.mul_(saved.other) : dy;
  }

 private:
  double p_;
};

// Averaging is linear, so it is one small matrix product each way: y = x a', with a row of `a` for every
// output pixel. (LibTorch's own backward pass for GPUs is not deterministic.)
class AdaptiveAverage final : public Layer {
 public:
  explicit AdaptiveAverage(int side) : side_(side) {}

  at::Tensor forward(at::Tensor x, Saved* saved, Rng&) const override {
    if (saved != nullptr) saved->input = x;
    const std::int64_t images = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    if (height == side_ && width == side_) return x;
    return at::mm(x.contiguous().view({images * channels, height * width}),
                  matrix(height, width, x.device()).t())
        .view({images, channels, side_, side_});
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor>) const override {
    const at::Tensor& x = saved.input;
    const std::int64_t height = x.size(2), width = x.size(3);
    if (height == side_ && width == side_) return dy;
    return at::mm(dy.contiguous().view({x.size(0) * x.size(1), side_ * side_}),
                  matrix(height, width, x.device()))
        .view(x.sizes());
  }

 private:
  // PyTorch's windows: output i averages the inputs from floor(i * n / side) to ceil((i + 1) * n / side).
  at::Tensor matrix(std::int64_t height, std::int64_t width, at::Device device) const {
    at::Tensor a = at::zeros({side_ * side_, height * width}, at::kFloat);
    float* element = a.data_ptr<float>();
    for (std::int64_t i = 0; i < side_; ++i) {
      const std::int64_t top = i * height / side_, bottom = ((i + 1) * height + side_ - 1) / side_;
      for (std::int64_t j = 0; j < side_; ++j, element += height * width) {
        const std::int64_t left = j * width / side_, right = ((j + 1) * width + side_ - 1) / side_;
        for (std::int64_t y = top; y < bottom; ++y)
          for (std::int64_t x = left; x < right; ++x)
            element[y * width + x] = 1.0F / static_cast<float>((bottom - top) * (right - left));
      }
    }
    return a.to(device);
  }

  std::int64_t side_;
};

class ChannelsLast final : public Layer {
 public:
  at::Tensor forward(at::Tensor x, Saved*, Rng&) const override {
    return x.contiguous(at::MemoryFormat::ChannelsLast);
  }
  at::Tensor backward(at::Tensor dy, Saved, std::span<const at::Tensor>) const override { return dy; }
};

class Flatten final : public Layer {
 public:
  at::Tensor forward(at::Tensor x, Saved* saved, Rng&) const override {
    if (saved != nullptr) saved->input = x;
    return x.contiguous().view({x.size(0), -1});
  }

  at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor>) const override {
    return dy.view(saved.input.sizes()).contiguous(saved.input.suggest_memory_format());
  }
};

}  // namespace

std::unique_ptr<Layer> conv3x3(LayerParameters parameters, int padding, bool first) {
  return std::make_unique<Conv3x3>(std::move(parameters), padding, first);
}
std::unique_ptr<Layer> linear(LayerParameters parameters) {
  return std::make_unique<Linear>(std::move(parameters));
}
std::unique_ptr<Layer> relu() { return std::make_unique<Relu>(); }
std::unique_ptr<Layer> max_pool2() { return std::make_unique<MaxPool2>(); }
std::unique_ptr<Layer> dropout(double probability) { return std::make_unique<Dropout>(probability); }
std::unique_ptr<Layer> adaptive_average(int side) { return std::make_unique<AdaptiveAverage>(side); }
std::unique_ptr<Layer> channels_last() { return std::make_unique<ChannelsLast>(); }
std::unique_ptr<Layer> flatten() { return std::make_unique<Flatten>(); }

}  // namespace rekindle::model
