#include "model/networks.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <string>

#include "base/random.hpp"

namespace rekindle::model {
namespace {

// Hands out a model's tensors in canonical order, a layer's weight and bias at a time.
class Parameters {
 public:
  explicit Parameters(const std::vector<at::Tensor>& tensors) : tensors_(tensors) {}
  LayerParameters next() {
    const std::size_t index = next_;
    next_ += 2;
    return {tensors_.at(index), tensors_.at(index + 1), index};
  }

 private:
  const std::vector<at::Tensor>& tensors_;
  std::size_t next_ = 0;
};

// torchvision.models.vgg11. A pool comes before its ReLU and not after it: the maximum of ReLUs is the ReLU
// of the maximum, bit for bit and forward as well as backward, and there are four times fewer of them.
Network vgg11(const ModelConfig& config, Parameters parameters) {
  Network network;
  network.push_back(channels_last());
  bool first = true;
  for (const bool pooled : {true, true, false, true, false, true, false, true}) {
    network.push_back(conv3x3(parameters.next(), 1, first));
    first = false;
    if (pooled) network.push_back(max_pool2());
    network.push_back(relu());
  }
  network.push_back(adaptive_average(7));
  network.push_back(flatten());
  for (int i = 0; i < 2; ++i) {
    network.push_back(linear(parameters.next()));
    network.push_back(relu());
    network.push_back(dropout(config.dropout));
  }
  network.push_back(linear(parameters.next()));
  return network;
}

// github.com/pytorch/examples/blob/main/mnist/main.py; its dropouts are 0.25 and 0.5.
Network mnist_cnn(const ModelConfig& config, Parameters parameters) {
  Network network;
  network.push_back(conv3x3(parameters.next(), 0, true));
  network.push_back(relu());
  network.push_back(conv3x3(parameters.next(), 0, false));
  network.push_back(max_pool2());
  network.push_back(relu());
  network.push_back(dropout(config.dropout == 0 ? 0 : 0.25));
  network.push_back(flatten());
  network.push_back(linear(parameters.next()));
  network.push_back(relu());
  network.push_back(dropout(config.dropout == 0 ? 0 : 0.5));
  network.push_back(linear(parameters.next()));
  return network;
}

}  // namespace

std::vector<at::Tensor> tensor_views(const Layout& layout, const at::Tensor& arena) {
  std::vector<at::Tensor> views;
  views.reserve(layout.tensors.size());
  for (const TensorPlace& place : layout.tensors)
    views.push_back(
        arena.narrow(0, static_cast<std::int64_t>(place.offset), static_cast<std::int64_t>(place.floats))
            .view(place.shape));
  return views;
}

Network make_network(const ModelConfig& config, const std::vector<at::Tensor>& parameters) {
  return config.model == "vgg11" ? vgg11(config, Parameters(parameters))
                                 : mnist_cnn(config, Parameters(parameters));
}

void initialize(const ModelConfig& config, const Layout& layout, const std::vector<at::Tensor>& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i];
    at::Generator generator =
        at::make_generator<at::CPUGeneratorImpl>(stream_key(config.seed, Draws::kInit, {i}));
    // A bias is drawn with the fan-in of its layer's weight, which comes before it.
    const bool is_bias = tensor.dim() == 1;
    const std::vector<std::int64_t>& weight = layout.tensors[is_bias ? i - 1 : i].shape;
    const std::int64_t pixels = weight.size() == 4 ? weight[2] * weight[3] : 1;
    const double fan_in = static_cast<double>(weight[1] * pixels),
                 fan_out = static_cast<double>(weight[0] * pixels);
    if (config.model == "mnist-cnn") {
      // PyTorch's defaults: kaiming_uniform(a = sqrt(5)) and the bias alike come to +-1/sqrt(fan_in).
      const double bound = 1 / std::sqrt(fan_in);
      tensor.uniform_(-bound, bound, generator);
    } else if (is_bias) {
      tensor.zero_();
    } else {
      // torchvision's vgg: kaiming_normal(fan_out, relu) for convolutions, normal(0, 0.01) for linear layers.
      tensor.normal_(0, weight.size() == 4 ? std::sqrt(2 / fan_out) : 0.01, generator);
    }
  }
}

}  // namespace rekindle::model
