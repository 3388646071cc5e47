#include "model/machine.hpp"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <fstream>

#include "base/text.hpp"

namespace rekindle::model {
namespace {

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

Status check_torch() {
  const std::uint64_t loaded = aoti_torch_abi_version();
  if (loaded == TORCH_ABI_VERSION) return {};
  const auto part = [loaded](int shift) { return (loaded >> shift) & 0xff; };
  return fail(ExitCode::kConfig,
              str("this program was built with LibTorch ", TORCH_VERSION, ", and LibTorch ", part(56), ".",
                  part(48), ".", part(40), " is loaded"),
              "build it again with that LibTorch, or put the other one back");
}

std::string describe_machine(const std::string& gpu) {
  std::string text = str(processor(), " (", at::get_cpu_capability(), ")");
  if (!gpu.empty()) text = str(gpu, " beside ", text);
  return str(text, ", LibTorch ", TORCH_VERSION, ", oneDNN ", version_in(at::get_mkldnn_version()), ", MKL ",
             version_in(at::get_mkl_version()));
}

}  // namespace rekindle::model
