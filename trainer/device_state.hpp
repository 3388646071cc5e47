// The state of a model on a device, as HostState is one in host memory, with the same formulas. The host has
// a copy for checkpoints and other trainers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "device/device.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::trainer {

class DeviceState {
 public:
  // All values are zero. Errors: those of UpdatePlan::make(); an optimizer that has no formula for GPUs, or
  // no memory on the device (ExitCode::kConfig).
  static Result<std::unique_ptr<DeviceState>> make(const StateLayout& layout, const UpdateOptions& options,
                                                   device::Place place);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  const StateLayout& layout() const { return host_->layout(); }
  // The copy in host memory.
  checkpoint::State state() { return host_->state(); }
  Status download();
  Status upload();
  // Of the values on the device, without a copy of them. Equal values have the same digest in every process.
  Result<Hash128> digest();

  // As HostState::keep_from_children(), of the copy. A page that is locked for the device must not become
  // two.
  void keep_from_children() { host_->keep_from_children(); }

  // On the device, by StateLayout. `average` is empty if there is none.
  std::span<float> values() { return memory_[0].floats(); }
  std::span<float> average() { return average_decay_ > 0 ? memory_.back().floats() : std::span<float>(); }
  bool averaged() const { return average_decay_ > 0 && counters_[0] > 0; }

  // As those of HostState; the sum and the proposed values are on the device.
  void update(std::size_t first, std::span<const float> sum, const optim::Step& step);
  void propose(std::size_t tensor, std::span<const std::byte> value) { proposed_[tensor] = value; }
  // Errors: those of HostState; one of the device. What the device does later than this is found by the next
  // call.
  Status finish_update();

 private:
  DeviceState(std::unique_ptr<HostState> host, UpdatePlan plan, const UpdateOptions& options,
              device::Place place);
  void copy(void* to, const void* from, std::size_t bytes) {
    place_.device->copy(*place_.stream, to, from, bytes);
  }
  Status synchronize() { return place_.device->synchronize(*place_.stream); }
  Status copy_all(bool to_host);
  Status take_header(std::size_t first, std::span<const float> sum, const optim::Step& step);
  void update_parameters(std::size_t first, std::span<const float> sum);
  void update_buffers(std::size_t first, std::span<const float> sum);
  void take_proposed(std::size_t tensor, device::Pieces& pieces);
  // Runs them once they are full, or `all`.
  void run_pieces(device::Pieces& pieces, bool all);
  void update_average(std::size_t first, std::size_t count);
  void fetch_proofs(std::size_t first, std::span<const float> sum);
  Status check_proofs();

  const std::unique_ptr<HostState> host_;
  UpdatePlan plan_;
  const double average_decay_;
  const device::Place place_;
  std::vector<device::Memory> memory_;  // values, the optimizer's states, the average
  device::Memory digest_;               // the sums of digest()
  // The host needs them for each update. Not those of the copy, which may be on its way to a checkpoint.
  std::vector<std::int32_t> counters_;
  std::vector<float> header_;  // of the summed gradient
  std::vector<std::span<const std::byte>> proposed_;
  std::vector<float> buffers_;  // the summed gradient from the first buffer on, as far as the host needs it
  std::vector<std::size_t> to_prove_;  // buffers that have no mean and got a new value in this update
  Status failure_;
};

}  // namespace rekindle::trainer
