#include "capi/host_copy.hpp"

#include <cstring>
#include <utility>

namespace rekindle::capi {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t with_padding(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

checkpoint::StateSpec joined(checkpoint::StateSpec live, const checkpoint::StateSpec& optimizer) {
  live.insert(live.end(), optimizer.begin(), optimizer.end());
  return live;
}

std::size_t size_of(const checkpoint::StateSpec& spec) {
  std::size_t bytes = 0;
  for (const checkpoint::TensorSpec& tensor : spec) bytes += with_padding(tensor.bytes());
  return bytes;
}

}  // namespace

HostCopy::HostCopy(trainer::HostState& live, const checkpoint::StateSpec& optimizer)
    : bytes_(size_of(joined(checkpoint::spec_of(live.state()), optimizer))),
      sum_(live.layout().floats() * sizeof(float)),
      first_of_optimizer_(live.state().size()) {
  std::size_t offset = 0;
  for (checkpoint::TensorSpec& spec : joined(checkpoint::spec_of(live.state()), optimizer)) {
    const std::size_t bytes = spec.bytes();
    state_.push_back({std::move(spec), bytes_.bytes().subspan(offset, bytes)});
    offset += with_padding(bytes);
  }
}

void HostCopy::take(trainer::HostState& live) {
  const checkpoint::State from = live.state();
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(state_[i].bytes.data(), from[i].bytes.data(), from[i].bytes.size());
}

void HostCopy::give(trainer::HostState& live) const {
  const checkpoint::State to = live.state();
  for (std::size_t i = 0; i < to.size(); ++i)
    std::memcpy(to[i].bytes.data(), state_[i].bytes.data(), to[i].bytes.size());
}

}  // namespace rekindle::capi
