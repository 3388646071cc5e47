#include "model/layout.hpp"

#include <array>
#include <span>
#include <utility>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace rekindle::model {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

Status check_name(const std::string& what, const std::string& name, std::span<const std::string> known) {
  for (const std::string& each : known)
    if (each == name) return {};
  return fail(ExitCode::kConfig, str("unknown ", what, " '", name, "'"), did_you_mean(name, known));
}

// VGG configuration "A" (Simonyan and Zisserman 2015); 0 is a max-pool. Indices are torchvision's, which
// count the ReLUs and pools too.
Layout vgg11_layout(const ModelConfig& config) {
  constexpr std::array kChannels = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};
  Layout layout;
  std::int64_t in = config.channels;
  int index = 0;
  for (const int out : kChannels) {
    if (out == 0) {
      ++index;
      continue;
    }
    layout.append(str("features.", index, ".weight"), {out, in, 3, 3});
    layout.append(str("features.", index, ".bias"), {out});
    in = out;
    index += 2;
  }
  const std::array<std::int64_t, 4> widths = {512 * 7 * 7, 4096, 4096, config.classes};
  for (std::size_t i = 0; i < 3; ++i) {
    layout.append(str("classifier.", 3 * i, ".weight"), {widths[i + 1], widths[i]});
    layout.append(str("classifier.", 3 * i, ".bias"), {widths[i + 1]});
  }
  return layout;
}

// PyTorch's basic MNIST example; fc1's width follows the image size.
Layout mnist_cnn_layout(const ModelConfig& config) {
  const std::int64_t side = (config.image_size - 4) / 2;
  Layout layout;
  layout.append("conv1.weight", {32, config.channels, 3, 3});
  layout.append("conv1.bias", {32});
  layout.append("conv2.weight", {64, 32, 3, 3});
  layout.append("conv2.bias", {64});
  layout.append("fc1.weight", {128, 64 * side * side});
  layout.append("fc1.bias", {128});
  layout.append("fc2.weight", {config.classes, 128});
  layout.append("fc2.bias", {config.classes});
  return layout;
}

}  // namespace

void Layout::append(std::string name, std::vector<std::int64_t> shape) {
  std::size_t floats = 1;
  for (const std::int64_t extent : shape) floats *= static_cast<std::size_t>(extent);
  const std::size_t offset = round_up(arena_floats, floats < kLargeFloats ? kAlignFloats : kPageFloats);
  tensors.push_back({std::move(name), std::move(shape), offset, floats});
  arena_floats = round_up(offset + floats, kAlignFloats);
}

std::size_t Layout::parameters() const {
  std::size_t sum = 0;
  for (const TensorPlace& tensor : tensors) sum += tensor.floats;
  return sum;
}

Status check_config(const ModelConfig& config) {
  const std::array<std::string, 2> models = {"vgg11", "mnist-cnn"};
  REKINDLE_CHECK(check_name("model", config.model, models));
  REKINDLE_CHECK(optim::make_optimizer(config.optimizer));
  const int smallest = config.model == "vgg11" ? 32 : 6;
  const auto refuse = [](std::string what, std::string hint) -> Status {
    return fail(ExitCode::kConfig, std::move(what), std::move(hint));
  };
  if (config.image_size < smallest)
    return refuse(str("images of ", config.image_size, " pixels are too small for ", config.model),
                  str("use --image-size ", smallest, " or more"));
  if (config.classes < 1) return refuse(str(config.classes, " classes"), "a model needs at least one");
  if (config.channels < 1) return refuse(str(config.channels, " channels"), "an image needs at least one");
  if (config.threads < 1) return refuse(str(config.threads, " threads"), "use --threads 1 or more");
  // Written so that a NaN is refused too.
  if (!(config.dropout >= 0 && config.dropout < 1))
    return refuse(str("dropout ", config.dropout, " is out of range"),
                  "use a number from 0 up to, not including, 1");
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1))
    return refuse(str("label smoothing ", config.label_smoothing, " is out of range"),
                  "use a number from 0 up to, not including, 1");
  return {};
}

Layout parameter_layout(const ModelConfig& config) {
  return config.model == "vgg11" ? vgg11_layout(config) : mnist_cnn_layout(config);
}

std::vector<std::string> optimizer_arenas(const ModelConfig& config) {
  return optim::make_optimizer(config.optimizer).value()->states();
}

}  // namespace rekindle::model
