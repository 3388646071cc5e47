#include "capi/optimizer_copy.hpp"

#include <sys/mman.h>

#include <cstring>
#include <tuple>
#include <utility>

namespace rekindle::capi {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t with_padding(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::size_t size_of(const checkpoint::StateSpec& spec) {
  std::size_t bytes = 0;
  for (const checkpoint::TensorSpec& tensor : spec) bytes += with_padding(tensor.bytes());
  return bytes;
}

}  // namespace

OptimizerCopy::OptimizerCopy(const checkpoint::State& live, bool is_copy,
                             const checkpoint::StateSpec& optimizer)
    : live_(live), bytes_((is_copy ? 0 : size_of(checkpoint::spec_of(live))) + size_of(optimizer)) {
  // A process that loads samples would keep these pages, or copies of them, for nothing.
  std::ignore = ::madvise(bytes_.bytes().data(), bytes_.bytes().size(), MADV_DONTFORK);
  std::size_t offset = 0;
  const auto add = [&](const checkpoint::StateSpec& tensors) {
    for (const checkpoint::TensorSpec& spec : tensors) {
      state_.push_back({spec, bytes_.bytes().subspan(offset, spec.bytes())});
      offset += with_padding(spec.bytes());
    }
  };
  if (is_copy)
    state_ = live;
  else
    add(checkpoint::spec_of(live));
  add(optimizer);
}

void OptimizerCopy::take() const {
  for (std::size_t i = 0; i < live_.size(); ++i) {
    if (state_[i].bytes.data() != live_[i].bytes.data())
      std::memcpy(state_[i].bytes.data(), live_[i].bytes.data(), live_[i].bytes.size());
  }
}

void OptimizerCopy::give() const {
  for (std::size_t i = 0; i < live_.size(); ++i) {
    if (state_[i].bytes.data() != live_[i].bytes.data())
      std::memcpy(live_[i].bytes.data(), state_[i].bytes.data(), live_[i].bytes.size());
  }
}

}  // namespace rekindle::capi
