#include "exchange/device_hub.hpp"

#include <utility>

#include "exchange/nccl_exchange.hpp"

namespace rekindle::exchange {
namespace {

class NcclHub final : public DeviceHub {
 public:
  NcclHub(DeviceParts parts, std::unique_ptr<Hub> host) : host_(std::move(host)), parts_(std::move(parts)) {}

  device::Stream& stream() override { return *parts_.stream; }
  Endpoint endpoint() const override { return host_->endpoint(); }
  std::size_t floats() const override { return parts_.floats; }
  Result<std::span<float>> slot(int i) override { return parts_.slot(i); }
  std::unique_ptr<Exchange> make(const Plan& plan) override {
    Plan on_host = plan;
    on_host.backend = Backend::kAuto;
    return make_nccl_exchange(parts_, host_->make(on_host), plan);
  }

 private:
  const std::unique_ptr<Hub> host_;
  DeviceParts parts_;
};

}  // namespace

Result<std::unique_ptr<DeviceHub>> open_device_hub(device::Device& device, const NcclApi& api,
                                                   std::size_t floats, const std::string& address,
                                                   PortRange ports, NcclLimits limits) {
  REKINDLE_TRY(std::unique_ptr<Hub> host, Hub::open(floats, address, ports));
  DeviceParts parts{
      .device = device, .api = api, .limits = std::move(limits), .floats = floats, .stream = nullptr};
  REKINDLE_TRY(parts.stream, device.make_stream());
  return std::make_unique<NcclHub>(std::move(parts), std::move(host));
}

}  // namespace rekindle::exchange
