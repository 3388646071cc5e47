// The state of a model on a GPU. It is updated with the same plan and the same formulas as on the host
// (model/optimizer.cpp), but with LibTorch's operators; its bits are those of the device.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "model/exceptions.hpp"
#include "model/open_device.hpp"
#include "model/optimizer.hpp"
#include "model/state_memory.hpp"
#include "trainer/buffer_proof.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::model {
namespace {

using trainer::TensorPlace;

class DeviceMemory final : public StateMemory {
 public:
  // `host` is the copy; it also holds the counters.
  DeviceMemory(std::unique_ptr<trainer::HostState> host, trainer::UpdatePlan plan,
               const trainer::UpdateOptions& options, at::Device device)
      : host_(std::move(host)), plan_(std::move(plan)), options_(options), device_(device) {
    for (const std::span<const std::byte> arena : host_->arenas())
      arenas_.push_back(at::zeros({static_cast<std::int64_t>(arena.size() / sizeof(float))},
                                  at::TensorOptions(at::kFloat).device(device_)));
    proposed_.resize(host_->layout().tensors().size());
  }

  at::Tensor values() override { return arenas_[0]; }
  at::Tensor average() override { return options_.average > 0 ? arenas_.back() : at::Tensor(); }
  checkpoint::State state() override { return host_->state(); }
  trainer::Arenas arenas() override { return {}; }
  void download() override { copy(true); }
  void upload() override { copy(false); }
  void propose(std::size_t tensor, const at::Tensor& value) override { proposed_[tensor] = value; }

  void update(std::size_t first, std::span<const float> sum, const optim::Step& step) override {
    const at::NoGradGuard no_grad;
    if (first == 0) header_.clear();
    if (header_.size() < layout().header_floats()) take_header(sum, step);
    const std::size_t end = first + sum.size();
    for (const trainer::UpdateRun& run : plan_.runs())
      update_run(run, std::max(run.first, first), std::min(run.end, end), sum, first);
    for (std::size_t i = layout().parameters(); i < layout().tensors().size(); ++i)
      update_buffer(i, first, sum);
    update_average(std::max(first, layout().header_floats()), end);
  }

  Status finish_update() override {
    synchronize(device_);
    for (at::Tensor& each : proposed_) each = at::Tensor();
    return std::exchange(failure_, Status());
  }

 private:
  const trainer::StateLayout& layout() const { return host_->layout(); }

  static at::Tensor on_host(std::span<const float> floats) {
    // from_blob wants a pointer to non-const; this only reads.
    return at::from_blob(const_cast<float*>(floats.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                         {static_cast<std::int64_t>(floats.size())});
  }
  at::Tensor piece(std::size_t arena, std::size_t first, std::size_t end) const {
    return arenas_[arena].narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first));
  }

  void take_header(std::span<const float> sum, const optim::Step& step) {
    const std::size_t at = header_.size(), count = std::min(sum.size(), layout().header_floats() - at);
    header_.insert(header_.end(), sum.begin(), sum.begin() + static_cast<std::ptrdiff_t>(count));
    const bool complete = header_.size() == layout().header_floats();
    const std::size_t counters = plan_.counts() ? trainer::UpdatePlan::counters(layout()) : 0;
    // The counters live in the header of the values, as 32-bit integers.
    at::Tensor on_device, counted;
    if (complete && counters > 0) {
      on_device = piece(0, 0, counters).view(at::kInt);
      counted = on_device.to(at::kCPU);
    }
    plan_.take_header(at, sum.first(count), step,
                      counted.defined() ? std::span(counted.data_ptr<std::int32_t>(), counters)
                                        : std::span<std::int32_t>());
    if (counted.defined()) on_device.copy_(counted);
  }

  void update_run(const trainer::UpdateRun& run, std::size_t first, std::size_t end,
                  std::span<const float> sum, std::size_t sum_first) {
    for (; first < end; first += kStagingFloats) {
      const std::size_t last = std::min(end, first + kStagingFloats);
      std::vector<at::Tensor> pieces;
      for (std::size_t a = 0; a < 1 + plan_.optimizer_states().size(); ++a)
        pieces.push_back(piece(a, first, last));
      update_on_device(run.options(options_.optimizer), run.step, pieces,
                       on_host(sum.subspan(first - sum_first, last - first)).to(device_));
    }
  }

  void update_buffer(std::size_t tensor, std::size_t sum_first, std::span<const float> sum) {
    const TensorPlace& place = layout().tensors()[tensor];
    const std::size_t first = std::max(place.offset, sum_first),
                      end = std::min(place.end(), sum_first + sum.size());
    if (first >= end || !plan_.changed(tensor)) return;
    const std::span<const float> part = sum.subspan(first - sum_first, end - first);
    if (place.is_float()) {
      piece(0, first, end).copy_(on_host(part)).mul_(plan_.mean());
      return;
    }
    if (first != place.offset) return;  // all of it was written with the proof
    if (!proposed_[tensor].defined() ||
        !trainer::all_agree(part.first<trainer::kProofFloats>(),
                            static_cast<std::size_t>(plan_.micro_batches()))) {
      failure_ = forward_error(trainer::disagreement(place));
      return;
    }
    const auto bytes = static_cast<std::int64_t>(place.spec.bytes());
    arenas_[0]
        .view(at::kByte)
        .narrow(0, static_cast<std::int64_t>(place.offset * sizeof(float)), bytes)
        .copy_(proposed_[tensor].flatten().view(at::kByte));
  }

  void update_average(std::size_t first, std::size_t end) {
    if (options_.average == 0 || first >= end) return;
    const at::Tensor average = piece(arenas_.size() - 1, first, end), values = piece(0, first, end);
    if (plan_.is_first())
      average.copy_(values);
    else
      average.lerp_(values, 1 - options_.average);
  }

  void copy(bool to_host) {
    const at::NoGradGuard no_grad;
    std::size_t i = 0;
    for (const std::span<const std::byte> arena : host_->arenas()) {
      const at::Tensor host =
          on_host({reinterpret_cast<const float*>(arena.data()), arena.size() / sizeof(float)});
      if (to_host)
        host.copy_(arenas_[i]);
      else
        arenas_[i].copy_(host);
      ++i;
    }
    synchronize(device_);
  }

  std::unique_ptr<trainer::HostState> host_;
  trainer::UpdatePlan plan_;
  const trainer::UpdateOptions options_;
  const at::Device device_;
  std::vector<at::Tensor> arenas_, proposed_;
  std::vector<float> header_;  // of the current step, as far as it has come
  Status failure_;
};

}  // namespace

Result<std::unique_ptr<StateMemory>> make_device_memory(const trainer::StateLayout& layout,
                                                        const trainer::UpdateOptions& options,
                                                        at::Device device) {
  REKINDLE_TRY(auto host, trainer::HostState::make(layout, options));
  REKINDLE_TRY(trainer::UpdatePlan plan, trainer::UpdatePlan::make(layout, options));
  return without_exceptions("building the model", [&]() -> Result<std::unique_ptr<StateMemory>> {
    return std::make_unique<DeviceMemory>(std::move(host), std::move(plan), options, device);
  });
}

}  // namespace rekindle::model
