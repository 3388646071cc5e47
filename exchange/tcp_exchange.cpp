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
  TcpExchange(LocalMemory& memory, Acceptor& acceptor, const Plan& plan)
      : memory_(memory), acceptor_(acceptor), plan_(plan), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  Status connect() override {
    return status_.guard([&] { return meet(); });
  }
  Result<Reduced> reduce(const StepHeader& mine) override {
    overwritten_ = false;
    return status_.guard([&] { return sum(mine); });
  }
  bool slot_0_overwritten() const override { return overwritten_; }
  bool sums_unchanged() const override { return true; }  // the sums are in this rank's own memory
  // No peer reads this rank's memory: all data for peers have been sent when reduce() returns.
  Status release() override {
    return status_.guard([] { return Status(); });
  }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override {
    return status_.guard([&]() -> Result<std::vector<StepHeader>> {
      HeaderTransfer transfer(++call_, mine, plan_.rank, ranks());
      REKINDLE_CHECK(mesh_->run(transfer));
      return std::move(transfer.headers);
    });
  }
  Status all_gather(RankPieces pieces, const std::vector<bool>& receives) override {
    return status_.guard([&] { return copy_around(pieces, receives); });
  }
  void abort() noexcept override {
    status_.abort();
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);  // fails only if the eventfd is already raised
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
    const std::function<bool()> aborted = [this] { return status_.aborted(); };
    REKINDLE_TRY(auto connections, meet_members(plan_, acceptor_, wake_.get(), aborted, waiting_));
    const std::lock_guard lock(mesh_mutex_);  // abort() may come at any time
    mesh_.emplace(std::move(connections), wake_.get(), aborted, waiting_);
    if (status_.aborted()) mesh_->shut_down();
    // A peer of an older generation in shared memory may still read the slots.
    memory_.claim_slots();
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
    overwritten_ = transfer.overwritten();
    REKINDLE_CHECK(moved);
    return Reduced{std::move(transfer.headers), {{0, slots[0]}}};
  }

  Status copy_around(RankPieces pieces, const std::vector<bool>& receives) {
    REKINDLE_CHECK(check_copy(pieces, receives, ranks()));
    BytesTransfer transfer(++call_, plan_.rank, pieces, receives);
    return mesh_->run(transfer);
  }

  LocalMemory& memory_;
  Acceptor& acceptor_;
  const Plan plan_;
  const Fd wake_;  // eventfd: raised by abort()
  CallStatus status_;
  WaitingFor waiting_;
  Layout layout_;
  std::optional<PartWindow> window_;
  std::mutex mesh_mutex_;
  std::optional<Mesh> mesh_;
  std::uint32_t call_ = 0;
  bool overwritten_ = false;  // slot 0, by sums
};

}  // namespace

std::unique_ptr<Exchange> make_tcp_exchange(LocalMemory& memory, Acceptor& acceptor, const Plan& plan) {
  return std::make_unique<TcpExchange>(memory, acceptor, plan);
}

}  // namespace rekindle::exchange
