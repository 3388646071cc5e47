#include "model/numeric_check.hpp"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cstddef>
#include <fstream>
#include <vector>

#include "base/hash.hpp"
#include "base/text.hpp"
#include "model/layout.hpp"
#include "model/open_device.hpp"

namespace rekindle::model {
namespace {

struct Computed {
  std::vector<Hash128> tensors;  // of the gradient, in canonical order
  double loss = 0;

  Hash128 all() const {
    Hasher128 hasher;
    hasher.update(std::as_bytes(std::span(tensors)));
    hasher.update(std::as_bytes(std::span(&loss, 1)));
    return hasher.digest();
  }
};

// "3.10.2" of "Intel(R) MKL-DNN v3.10.2 (Git Hash ...)".
std::string version_in(const std::string& text) {
  constexpr const char* kDigits = "0123456789";
  for (std::size_t begin = text.find_first_of(kDigits); begin != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
    const std::string version = text.substr(begin, end - begin);
    if (version.find('.') != std::string::npos) return version;
    begin = text.find_first_of(kDigits, end);
  }
  return text;
}

// Source: proc(5); other architectures than x86 have no such line.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

Result<NumericCheck> check_numerics(Replica& replica, const ModelConfig& config,
                                    std::span<const float> images, std::span<const std::int64_t> labels,
                                    std::uint64_t dropout_key, std::span<float> gradient,
                                    const std::atomic<bool>& aborted) {
  const Layout layout = parameter_layout(config);
  const auto compute = [&]() -> Result<Computed> {
    REKINDLE_TRY(const LeafResult result, replica.train_leaf(images, labels, dropout_key, gradient, aborted));
    Computed computed{{}, result.loss};
    for (const TensorPlace& place : layout.tensors)
      computed.tensors.push_back(hash128(std::as_bytes(gradient.subspan(place.offset, place.floats))));
    return computed;
  };
  REKINDLE_TRY(const Computed first, compute());
  REKINDLE_TRY(const Computed second, compute());
  NumericCheck check{first.all().hex(), ""};
  if (first.all() == second.all()) return check;
  check.mismatch = "the loss";
  for (std::size_t i = layout.tensors.size(); i-- > 0;) {
    if (!(first.tensors[i] == second.tensors[i])) check.mismatch = layout.tensors[i].name;
  }
  return check;
}

std::string describe_machine(const ModelConfig& config) {
  std::string text = str(processor(), " (", at::get_cpu_capability(), ")");
  if (const auto device = open_device(config.device); device && !device->is_cpu())
    text = str(describe_device(*device), " beside ", text);
  return str(text, ", LibTorch ", TORCH_VERSION, ", oneDNN ", version_in(at::get_mkldnn_version()), ", MKL ",
             version_in(at::get_mkl_version()));
}

}  // namespace rekindle::model
