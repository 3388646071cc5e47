#include "exchange/device_hub.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "device/kernels.hpp"
#include "exchange/layout.hpp"
#include "exchange/nccl_exchange.hpp"
#include "exchange/staged_exchange.hpp"

namespace rekindle::exchange {
namespace {

// NCCL's rule: it refuses two ranks on one place of a host's bus, so also two parts of one GPU (MIG). The
// variable names the host; otherwise the host is its name and this boot (ncclDuplicateGpu, getHostHash).
std::string device_for_nccl(const device::Device& device) {
  const char* const host = std::getenv("NCCL_HOSTID");
  return str(device.bus(), "@", host == nullptr ? str(host_name(), "/", boot_id()) : host);
}

std::string version_of(const Endpoint& member) { return member.nccl.substr(0, member.nccl.find(' ')); }

bool nccl_serves(const std::vector<Endpoint>& members) {
  std::vector<std::string> devices;
  for (const Endpoint& member : members) {
    if (member.nccl.empty() || version_of(member) != version_of(members[0])) return false;
    devices.push_back(member.nccl);
  }
  std::ranges::sort(devices);
  return std::ranges::adjacent_find(devices) == devices.end();
}

class OnDevice final : public Hub {
 public:
  OnDevice(DeviceParts parts, std::unique_ptr<Hub> host) : host_(std::move(host)), parts_(std::move(parts)) {}

  Endpoint endpoint() const override {
    Endpoint endpoint = host_->endpoint();
    if (parts_.nccl) endpoint.nccl = str(parts_.nccl->version, " ", device_for_nccl(*parts_.place.device));
    return endpoint;
  }
  std::size_t floats() const override { return parts_.floats; }
  Result<std::span<float>> slot(int i) override { return parts_.slot(i); }
  std::unique_ptr<Exchange> make(const Plan& plan) override {
    const int ranks = static_cast<int>(plan.members.size());
    const bool alone = ranks == 1;
    // A kernel adds so many partial sums, which grow with the number of ranks. If only NCCL is wanted, its
    // exchange says that there are too many.
    const bool fits = make_layout(plan.leaves, ranks).subtrees.size() <= device::kMostOperands;
    const bool by_nccl = plan.backend == Backend::kNccl ||
                         (plan.backend == Backend::kAuto && fits && nccl_serves(plan.members));
    Plan on_host = plan;
    if (plan.backend == Backend::kNccl) on_host.backend = Backend::kAuto;
    if (alone || (by_nccl && parts_.nccl)) return make_nccl_exchange(parts_, host_->make(on_host), plan);
    return make_staged_exchange(parts_, *host_, on_host);
  }

 private:
  const std::unique_ptr<Hub> host_;
  DeviceParts parts_;
};

// A stream that hangs is not, so the answer is not waited for.
bool is_idle(const device::Place& place) {
  constexpr std::chrono::milliseconds kLimit{1000}, kPause{5};
  const auto event = place.device->make_event();
  if (!event) return false;
  place.device->record(*place.stream, **event);
  for (const auto end = std::chrono::steady_clock::now() + kLimit; std::chrono::steady_clock::now() < end;) {
    const auto over = place.device->is_over(**event);
    if (!over || *over) return over.value_or(false);
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Hub>> open_device_hub(DeviceHubOptions options, std::size_t floats,
                                             const std::string& address, PortRange ports) {
  options.limits.use_device = [device = options.place.device] { device->use(); };
  options.limits.device_is_idle = [place = options.place] { return is_idle(place); };
  REKINDLE_TRY(std::unique_ptr<Hub> host, Hub::open(floats, address, ports));
  return std::make_unique<OnDevice>(
      DeviceParts{options.place, options.nccl, std::move(options.limits), floats}, std::move(host));
}

}  // namespace rekindle::exchange
