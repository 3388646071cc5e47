// A library to preload: LibTorch says that it is version 1.2.3.
#include <cstdint>

extern "C" std::uint64_t aoti_torch_abi_version() {
  // The format of TORCH_ABI_VERSION in torch/headeronly/version.h.
  return std::uint64_t{1} << 56 | std::uint64_t{2} << 48 | std::uint64_t{3} << 40;
}
