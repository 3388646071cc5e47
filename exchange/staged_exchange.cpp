#include "exchange/staged_exchange.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/log.hpp"
#include "exchange/failure.hpp"
#include "exchange/layout.hpp"

namespace rekindle::exchange {
namespace {

void warn_once(const Error& error) {
  static const bool warned = [&] {
    log_warning(error.line());
    return true;
  }();
  static_cast<void>(warned);
}

// One step: the partial sums to the slots of the host, the exchange there, and the sums to the device.
class StagedExchange final : public Exchange {
 public:
  StagedExchange(DeviceParts& parts, Hub& host, const Plan& plan)
      : parts_(parts),
        hub_(host),
        host_(host.make(plan)),
        partials_(make_layout(plan.leaves, static_cast<int>(plan.members.size()))
                      .partials[static_cast<std::size_t>(plan.rank)]) {}

  Status connect() override {
    REKINDLE_CHECK(host_->connect());
    parts_.free_retired([this] { return aborted_.load(); });  // their memory is on the device
    REKINDLE_TRY(sums_, parts_.place.device->allocate(parts_.floats * sizeof(float)));
    return {};
  }

  Result<Reduced> reduce(const StepHeader& mine) override {
    for (int i = 0; i < partials_; ++i) {
      REKINDLE_TRY(const std::span<float> from, parts_.slot(i));
      REKINDLE_TRY(const std::span<float> to, hub_.slot(i));
      // Copies of memory that is not locked are slower, and as right.
      if (const Status locked = device().lock(std::as_writable_bytes(to)); !locked) warn_once(locked.error());
      device().copy(stream(), to.data(), from.data(), from.size_bytes());
    }
    REKINDLE_CHECK(device().synchronize(stream()));
    REKINDLE_TRY(Reduced reduced, host_->reduce(mine));
    const std::span<float> sums = sums_.floats();
    for (SumPiece& piece : reduced.pieces) {
      const std::span<float> to = sums.subspan(piece.first, piece.sum.size());
      device().copy(stream(), to.data(), piece.sum.data(), to.size_bytes());
      piece.sum = to;
    }
    REKINDLE_CHECK(device().synchronize(stream()));
    unchanged_ = host_->sums_unchanged();
    return reduced;
  }
  bool slot_0_overwritten() const override { return false; }
  bool sums_unchanged() const override { return unchanged_; }
  Status release() override { return host_->release(); }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override { return host_->gather(mine); }
  Status all_gather(RankPieces pieces, const std::vector<bool>& receives) override {
    return host_->all_gather(pieces, receives);
  }
  void abort() noexcept override {
    aborted_ = true;
    host_->abort();
  }
  int waiting_for() const noexcept override { return host_->waiting_for(); }
  std::uint64_t activity() const noexcept override { return host_->activity(); }
  Backend backend() const override { return host_->backend(); }

 private:
  device::Device& device() const { return *parts_.place.device; }
  device::Stream& stream() const { return *parts_.place.stream; }

  DeviceParts& parts_;
  Hub& hub_;
  const std::unique_ptr<Exchange> host_;
  const int partials_;
  device::Memory sums_;
  std::atomic<bool> aborted_{false};
  bool unchanged_ = true;  // the sums of the last reduce(), when they had all been copied
};

}  // namespace

std::unique_ptr<Exchange> make_staged_exchange(DeviceParts& parts, Hub& host, const Plan& plan) {
  return std::make_unique<StagedExchange>(parts, host, plan);
}

}  // namespace rekindle::exchange
