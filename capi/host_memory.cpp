#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/pages.hpp"
#include "base/text.hpp"
#include "capi/state_memory.hpp"
#include "trainer/buffer_proof.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::capi {
namespace {

using trainer::TensorPlace;

class HostMemory final : public StateMemory {
 public:
  explicit HostMemory(std::unique_ptr<trainer::HostState> state)
      : state_(std::move(state)), proposed_(layout().tensors().size()) {
    state_->keep_from_children();
  }

  const trainer::StateLayout& layout() const override { return state_->layout(); }
  checkpoint::State state() override { return state_->state(); }
  trainer::Arenas arenas() override { return state_->arenas(); }
  Status download() override { return {}; }
  Status upload() override { return {}; }
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    state_->update(first, sum, step);
  }
  Status finish_update() override { return state_->finish_update(); }
  std::span<float> values() override { return state_->values(); }
  std::span<float> average() override { return state_->average(); }
  bool averaged() override { return state_->averaged(); }

  Status settle() override { return {}; }
  Status complete(std::span<float> gradient, const Computed& computed) override;

  void keep_sum(std::size_t first, std::span<const float> sum) override {
    sum_.resize(layout().floats());
    std::ranges::copy(sum, sum_.begin() + static_cast<std::ptrdiff_t>(first));
  }
  Result<std::span<float>> mean_gradient(float scale, std::span<std::uint8_t> received) override {
    for (std::size_t i = 0; i < received.size(); ++i) received[i] = sum_[i] > 0 ? 1 : 0;
    const std::size_t begin = layout().first_parameter_float();
    for (float& value : std::span(sum_).subspan(begin, layout().end_of_parameters() - begin)) value *= scale;
    return sum_;
  }
  void update_others(const optim::Step& step) override {
    std::ranges::fill(std::span(sum_).first(layout().parameters()), 0.0F);
    state_->update(0, sum_, step);
  }

 private:
  void complete_buffer(std::size_t tensor, std::span<const std::byte> value, std::span<float> gradient);

  const std::unique_ptr<trainer::HostState> state_;
  std::vector<float> sum_;                        // empty until it is needed
  std::vector<std::vector<std::byte>> proposed_;  // values of buffers that are not float32
};

Status HostMemory::complete(std::span<float> gradient, const Computed& computed) {
  std::ranges::fill(gradient.first(layout().first_parameter_float()), 0.0F);
  for (std::size_t i = 0; i < layout().parameters(); ++i) {
    const TensorPlace& place = layout().tensors()[i];
    const bool received = computed.received[i] != 0;
    gradient[i] = received ? 1.0F : 0.0F;
    const std::size_t begin = received ? place.end() : place.offset;
    std::ranges::fill(gradient.subspan(begin, layout().end_with_padding(i) - begin), 0.0F);
  }
  for (std::size_t i = 0; i < computed.buffers.size(); ++i) {
    const std::size_t tensor = layout().parameters() + i;
    const auto* const value = static_cast<const std::byte*>(computed.buffers[i]);
    complete_buffer(tensor, {value, layout().tensors()[tensor].spec.bytes()}, gradient);
  }
  return {};
}

void HostMemory::complete_buffer(std::size_t tensor, std::span<const std::byte> value,
                                 std::span<float> gradient) {
  const TensorPlace& place = layout().tensors()[tensor];
  const std::span<float> to =
      gradient.subspan(place.offset, layout().end_with_padding(tensor) - place.offset);
  gradient[tensor] = std::ranges::equal(value, state_->value_of(place)) ? 0.0F : 1.0F;
  std::ranges::fill(to, 0.0F);
  if (place.is_float()) {
    std::memcpy(to.data(), value.data(), value.size());
  } else {
    trainer::write_proof(value, to.first<trainer::kProofFloats>());
    proposed_[tensor].assign(value.begin(), value.end());
    state_->propose(tensor, proposed_[tensor]);
  }
}

}  // namespace

Result<std::unique_ptr<StateMemory>> make_host_memory(const trainer::StateLayout& layout,
                                                      const trainer::UpdateOptions& options) {
  REKINDLE_TRY(auto state, trainer::HostState::make(layout, options));
  return std::make_unique<HostMemory>(std::move(state));
}

}  // namespace rekindle::capi
