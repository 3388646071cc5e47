#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "model/model.hpp"

namespace rekindle::model {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

}  // namespace

std::string numeric_fingerprint(const ModelConfig& config, const std::string& gpu) {
  std::vector<std::pair<std::string, std::string>> entries = {
      {"torch", TORCH_VERSION},
      {"mkl", at::get_mkl_version()},
      {"onednn", at::get_mkldnn_version()},
      {"cpu_capability", at::get_cpu_capability()},
      {"threads", std::to_string(config.threads)},
      {"device", config.device.substr(0, config.device.find(':'))},
      {"compiler", __VERSION__},
  };
  if (config.device.starts_with("cuda")) {
    entries.emplace_back("gpu", gpu);
    entries.emplace_back("cudnn", std::to_string(at::detail::getCUDAHooks().versionCuDNN()));
  }
  for (const char* name : std::array{"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR"})
    entries.emplace_back(name, environment_variable(name));
  std::string json = "{";
  for (const auto& [key, value] : entries)
    json += (json.size() > 1 ? ", " : "") + quoted(key) + ": " + quoted(value);
  return json + "}";
}

}  // namespace rekindle::model
