#include "exchange/tcp_exchange.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "exchange/layout.hpp"
#include "exchange/transfers.hpp"

namespace rekindle::exchange {
namespace {

class TcpExchange final : public Exchange {
 public:
  TcpExchange(LocalMemory& memory, Door& door, const Plan& plan)
      : memory_(memory), door_(door), plan_(plan), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  Status connect() override {
    return fate_.guard([&] { return meet(); });
  }
  Result<Reduced> reduce(const StepHeader& mine) override {
    spoilt_ = false;
    return fate_.guard([&] { return sum(mine); });
  }
  bool slot_0_spoilt() const override { return spoilt_; }
  // Nobody reads this rank's memory: what peers need has been sent when reduce() returns.
  Status release() override {
    return fate_.guard([] { return Status(); });
  }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override {
    return fate_.guard([&]() -> Result<std::vector<StepHeader>> {
      HeaderTransfer transfer(++call_, mine, plan_.rank, ranks());
      REKINDLE_CHECK(mesh_->run(transfer));
      return std::move(transfer.headers);
    });
  }
  Status all_gather(RankPieces pieces, const std::vector<bool>& receives) override {
    return fate_.guard([&] { return copy_around(pieces, receives); });
  }
  void abort() noexcept override {
    fate_.abort();
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);  // fails only when it is raised already
    const std::lock_guard lock(mesh_mutex_);
    if (mesh_) mesh_->shut_down();
  }
  int waiting_for() const noexcept override { return waiting_.rank(); }
  std::uint64_t activity() const noexcept override { return waiting_.activity(); }
  Backend backend() const override { return Backend::kTcp; }

 private:
  int ranks() const { return static_cast<int>(plan_.members.size()); }

  Status meet() {
    REKINDLE_CHECK(check_plan(plan_));
    if (!wake_) return fail(str("eventfd: ", std::strerror(errno)));
    layout_ = make_layout(plan_.leaves, ranks());
    window_.emplace(layout_, plan_.rank);
    const std::function<bool()> aborted = [this] { return fate_.aborted(); };
    REKINDLE_TRY(auto connections, meet_members(plan_, door_, wake_.get(), aborted, waiting_));
    const std::lock_guard lock(mesh_mutex_);  // abort() may come at any time
    mesh_.emplace(std::move(connections), wake_.get(), aborted, waiting_);
    if (fate_.aborted()) mesh_->shut_down();
    return {};
  }

  Result<Reduced> sum(const StepHeader& mine) {
    std::vector<std::span<float>> slots;
    for (int i = 0; i < layout_.partials[plan_.rank]; ++i) {
      REKINDLE_TRY(const std::span<float> slot, memory_.slot(i));
      slots.push_back(slot);
    }
    ReduceTransfer transfer(++call_, mine, plan_, layout_, slots, *window_);
    const Status moved = mesh_->run(transfer);
    spoilt_ = transfer.spoilt();
    REKINDLE_CHECK(moved);
    return Reduced{std::move(transfer.headers), {{0, slots[0]}}};
  }

  Status copy_around(RankPieces pieces, const std::vector<bool>& receives) {
    REKINDLE_CHECK(check_copy(pieces, receives, ranks()));
    BytesTransfer transfer(++call_, plan_.rank, pieces, receives);
    return mesh_->run(transfer);
  }

  LocalMemory& memory_;
  Door& door_;
  const Plan plan_;
  const Fd wake_;  // eventfd: raised by abort()
  Fate fate_;
  WaitingFor waiting_;
  Layout layout_;
  std::optional<PartWindow> window_;
  std::mutex mesh_mutex_;
  std::optional<Mesh> mesh_;
  std::uint32_t call_ = 0;
  bool spoilt_ = false;  // slot 0, by sums
};

}  // namespace

std::unique_ptr<Exchange> make_tcp_exchange(LocalMemory& memory, Door& door, const Plan& plan) {
  return std::make_unique<TcpExchange>(memory, door, plan);
}

}  // namespace rekindle::exchange
