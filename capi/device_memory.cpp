#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/pages.hpp"
#include "capi/state_memory.hpp"
#include "trainer/buffer_proof.hpp"
#include "trainer/device_state.hpp"

namespace rekindle::capi {
namespace {

using trainer::TensorPlace;

class DeviceMemory final : public StateMemory {
 public:
  DeviceMemory(std::unique_ptr<trainer::DeviceState> state, const ComputeDevice& device)
      : place_(device.place()),
        is_gpu_(device.is_gpu),
        header_(state->layout().first_parameter_float() * sizeof(float)),
        fresh_(bytes_of_buffers(state->layout())),
        old_(bytes_of_buffers(state->layout())),
        state_(std::move(state)) {}
  ~DeviceMemory() override {
    static_cast<void>(synchronize());  // copies of memory that goes now
    for (Pages* const pages : {&header_, &fresh_, &old_}) place_.device->unlock(pages->bytes());
  }

  // Errors: no memory on the device.
  Status prepare() {
    REKINDLE_TRY(proposed_, place_.device->allocate(fresh_.bytes().size()));
    for (Pages* const pages : {&header_, &fresh_, &old_}) {
      if (pages->bytes().empty()) continue;
      ::madvise(pages->bytes().data(), pages->bytes().size(), MADV_DONTFORK);  // must not become two
      if (const Status locked = place_.device->lock(pages->bytes()); !locked)
        log_warning(locked.error().line());
    }
    return {};
  }

  const trainer::StateLayout& layout() const override { return state_->layout(); }
  checkpoint::State state() override { return state_->state(); }
  trainer::Arenas arenas() override { return {}; }
  Status download() override { return state_->download(); }
  Status upload() override { return state_->upload(); }
  Result<std::optional<Hash128>> digest() override { return state_->digest(); }
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    state_->update(first, sum, step);
  }
  Status finish_update() override { return state_->finish_update(); }
  std::span<float> values() override { return state_->values(); }
  std::span<float> average() override { return state_->average(); }
  bool averaged() override { return state_->averaged(); }

  // The other language knows nothing of the twin's stream.
  Status settle() override { return is_gpu_ ? Status() : synchronize(); }
  Status complete(std::span<float> gradient, const Computed& computed) override;

  void keep_sum(std::size_t first, std::span<const float> sum) override {
    if (sum_.data() == nullptr && failure_) failure_ = allocate_sum();
    if (failure_) copy(sum_.floats().data() + first, sum.data(), sum.size_bytes());
  }
  Result<std::span<float>> mean_gradient(float scale, std::span<std::uint8_t> received) override;
  void update_others(const optim::Step& step) override {
    run(device::Fill{sum_.floats().data(), 0.0F, layout().parameters()});
    state_->update(0, sum_.floats(), step);
  }

 private:
  static std::size_t bytes_of_buffers(const trainer::StateLayout& layout) {
    return (layout.floats() - layout.end_of_parameters()) * sizeof(float);
  }
  // Where a tensor's place is behind the parameters, in floats.
  std::size_t among_buffers(const TensorPlace& place) const {
    return place.offset - layout().end_of_parameters();
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    place_.device->copy(*place_.stream, to, from, bytes);
  }
  void run(const device::Kernel& kernel) { place_.device->run(*place_.stream, kernel); }
  Status synchronize() { return place_.device->synchronize(*place_.stream); }
  Status allocate_sum() {
    REKINDLE_TRY(sum_, place_.device->allocate(layout().floats() * sizeof(float)));
    return {};
  }
  void take_buffers(std::span<const void* const> values);
  void complete_buffer(std::size_t tensor);

  const device::Place place_;
  const bool is_gpu_;
  // Memory of the host. The stream reads it after a call of complete() has returned.
  Pages header_;             // of the gradient
  Pages fresh_, old_;        // the part of a gradient, and of the values, behind the parameters
  device::Memory proposed_;  // the new values of the buffers, by the same layout
  device::Memory sum_;       // empty until it is needed
  Status failure_;           // of keep_sum()
  std::unique_ptr<trainer::DeviceState> state_;
};

Status DeviceMemory::complete(std::span<float> gradient, const Computed& computed) {
  take_buffers(computed.buffers);
  REKINDLE_CHECK(synchronize());  // then nobody reads header_ and fresh_ any more, and the buffers are here
  std::ranges::fill(header_.floats(), 0.0F);
  for (std::size_t i = 0; i < layout().parameters(); ++i) {
    const TensorPlace& place = layout().tensors()[i];
    const bool received = computed.received[i] != 0;
    header_.floats()[i] = received ? 1.0F : 0.0F;
    const std::size_t begin = received ? place.end() : place.offset, end = layout().end_with_padding(i);
    if (begin < end) run(device::Fill{&gradient[begin], 0.0F, end - begin});
  }
  for (std::size_t i = 0; i < computed.buffers.size(); ++i) complete_buffer(layout().parameters() + i);
  copy(gradient.data(), header_.bytes().data(), header_.bytes().size());
  if (!computed.buffers.empty())
    copy(&gradient[layout().end_of_parameters()], fresh_.bytes().data(), fresh_.bytes().size());
  return {};
}

// All buffers come to the host at once, because the host waits for a GPU there.
void DeviceMemory::take_buffers(std::span<const void* const> values) {
  if (values.empty()) return;
  auto* const proposed = proposed_.floats().data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t tensor = layout().parameters() + i;
    const TensorPlace& place = layout().tensors()[tensor];
    const std::size_t bytes = place.spec.bytes();
    copy(proposed + among_buffers(place), values[i], bytes);
    if (place.is_float()) continue;
    state_->propose(tensor, {reinterpret_cast<const std::byte*>(proposed + among_buffers(place)), bytes});
  }
  copy(fresh_.bytes().data(), proposed, fresh_.bytes().size());
  copy(old_.bytes().data(), &state_->values()[layout().end_of_parameters()], old_.bytes().size());
}

void DeviceMemory::complete_buffer(std::size_t tensor) {
  const TensorPlace& place = layout().tensors()[tensor];
  const std::size_t first = among_buffers(place), bytes = place.spec.bytes();
  const std::span<float> to =
      fresh_.floats().subspan(first, layout().end_with_padding(tensor) - place.offset);
  const auto value = std::as_bytes(to).first(bytes);
  const auto old = std::as_bytes(old_.floats().subspan(first, place.floats)).first(bytes);
  header_.floats()[tensor] = std::ranges::equal(value, old) ? 0.0F : 1.0F;
  if (place.is_float()) return;  // the padding is that of proposed_, where it is zero
  std::vector<float> proof(trainer::kProofFloats);
  trainer::write_proof(value, std::span(proof).first<trainer::kProofFloats>());
  std::ranges::fill(to, 0.0F);
  std::ranges::copy(proof, to.begin());
}

Result<std::span<float>> DeviceMemory::mean_gradient(float scale, std::span<std::uint8_t> received) {
  REKINDLE_CHECK(std::exchange(failure_, Status()));
  const std::span<float> sum = sum_.floats(), header = header_.floats().first(received.size());
  copy(header.data(), sum.data(), header.size_bytes());
  REKINDLE_CHECK(synchronize());
  for (std::size_t i = 0; i < received.size(); ++i) received[i] = header[i] > 0 ? 1 : 0;
  const std::size_t begin = layout().first_parameter_float();
  run(device::Scale{&sum[begin], &sum[begin], scale, layout().end_of_parameters() - begin});
  return sum;
}

}  // namespace

Result<std::unique_ptr<StateMemory>> make_device_memory(const trainer::StateLayout& layout,
                                                        const trainer::UpdateOptions& options,
                                                        const ComputeDevice& device) {
  REKINDLE_TRY(auto state, trainer::DeviceState::make(layout, options, device.place()));
  state->keep_from_children();
  auto made = std::make_unique<DeviceMemory>(std::move(state), device);
  REKINDLE_CHECK(made->prepare());
  return made;
}

}  // namespace rekindle::capi
