#include "exchange/nccl_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "exchange/layout.hpp"
#include "exchange/milestones.hpp"
#include "exchange/nccl_cuts.hpp"
#include "exchange/tree_kernel.hpp"

namespace rekindle::exchange {
namespace {

using device::Memory;

constexpr std::chrono::microseconds kPause{20};
// What a communicator may take by itself, among 8 GPUs.
constexpr std::size_t kMemoryOfNccl = std::size_t{2} << 30;

// One step: the headers on the host, when every rank has come; each rank's partial sums to the owners of the
// shards, by NCCL; the sums of the own shard, by a kernel in the order of the tree; all shards to all ranks,
// by NCCL. The slots are only read.
class NcclExchange final : public Exchange {
 public:
  NcclExchange(DeviceParts& parts, std::unique_ptr<Exchange> host, const Plan& plan)
      : parts_(parts),
        host_(std::move(host)),
        rank_(plan.rank),
        ranks_(static_cast<int>(plan.members.size())),
        layout_(make_layout(plan.leaves, ranks_)),
        cuts_(layout_, ranks_, parts_.floats, parts_.limits.piece_bytes) {}
  ~NcclExchange() override {
    if (!link_) return;
    if (calls_.failed()) link_->abort();
    parts_.retired.push_back({std::move(sums_), std::move(windows_), false, std::move(link_)});
  }

  Status connect() override {
    return ended_if_failed(calls_.guard([this] { return connect_now(); }));
  }
  Result<Reduced> reduce(const StepHeader& mine) override {
    return ended_if_failed(calls_.guard([&] { return reduce_now(mine); }));
  }
  bool slot_0_overwritten() const override { return false; }
  bool sums_unchanged() const override { return true; }  // they are in this rank's own memory
  Status release() override {
    return calls_.guard([]() -> Status { return {}; });
  }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override {
    return calls_.guard([&] { return host_->gather(mine); });
  }
  Status all_gather(RankPieces pieces, const std::vector<bool>& receives) override {
    return calls_.guard([&] { return host_->all_gather(pieces, receives); });
  }

  void abort() noexcept override {
    host_->abort();
    const std::lock_guard lock(mutex_);
    calls_.abort();
    if (link_) link_->abort();
  }
  // NCCL does not say for whom it waits. All ranks wait for each other then: nobody hangs by itself. While
  // NCCL connects, which has no progress to show, no rank is named: the coordinator has a limit for that.
  int waiting_for() const noexcept override { return in_nccl_ ? rank_ : host_->waiting_for(); }
  std::uint64_t activity() const noexcept override { return host_->activity() + moved_; }
  Backend backend() const override { return Backend::kNccl; }

 private:
  // What is in flight ends at once: whoever gives memory of the device back waits for it.
  template <class Outcome>
  Outcome ended_if_failed(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    if (!outcome && link_) link_->abort();
    return outcome;
  }

  Status connect_now() {
    REKINDLE_CHECK(host_->connect());
    parts_.free_retired([this] { return calls_.aborted(); });
    if (layout_.subtrees.size() > device::kMostOperands)
      return forward_error({ExitCode::kConfig,
                            str("NCCL's way adds at most ", device::kMostOperands, " partial sums, and ",
                                ranks_, " trainers have ", layout_.subtrees.size()),
                            "use fewer trainers, or --exchange auto", ErrorKind::kTask});
    if (sum_is_slot_0()) return {};
    REKINDLE_TRY(sums_, memory(cuts_.floats_of_sums()));
    if (ranks_ == 1) return {};
    std::size_t windows = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      first_window_.push_back(windows);
      if (rank != rank_)
        windows += static_cast<std::size_t>(layout_.partials[static_cast<std::size_t>(rank)]);
    }
    REKINDLE_TRY(windows_, memory(windows * window_floats()));
    // An id opens a port of rank 0, and NCCL closes it only when every rank has come there. So first every
    // rank has its memory, and has ended what could take long.
    REKINDLE_CHECK(host_->gather(StepHeader{}));
    NcclId id;
    if (rank_ == 0 && parts_.nccl->get_unique_id(&id) != NcclCode::kSuccess)
      return fail("NCCL gives no unique id", "NCCL_DEBUG=WARN says more");
    std::vector<std::vector<std::span<std::byte>>> pieces(static_cast<std::size_t>(ranks_));
    pieces[0].push_back(std::as_writable_bytes(std::span(&id, 1)));
    REKINDLE_CHECK(host_->all_gather(pieces));
    {
      const std::lock_guard lock(mutex_);
      link_ = std::make_unique<NcclLink>(*parts_.nccl, parts_.limits);
      if (calls_.aborted()) link_->abort();
    }
    parts_.place.device->make_room(kMemoryOfNccl);
    REKINDLE_CHECK(link_->connect(id, ranks_, rank_));
    // NCCL connects to a peer at the first message to it, which takes long. Nobody needs what is in this
    // memory.
    REKINDLE_CHECK(move_partials(1));
    REKINDLE_CHECK(gather_sums());
    return await();
  }

  Result<Reduced> reduce_now(const StepHeader& mine) {
    Reduced reduced;
    REKINDLE_TRY(reduced.headers, host_->gather(mine));
    if (sum_is_slot_0()) {
      REKINDLE_TRY(const std::span<float> sum, parts_.slot(0));
      REKINDLE_CHECK(await());
      reduced.pieces.push_back({0, sum});
      return reduced;
    }
    const InNccl in(*this);
    if (ranks_ > 1) REKINDLE_CHECK(move_partials(static_cast<int>(layout_.subtrees.size())));
    REKINDLE_CHECK(sum_own_shard());
    if (ranks_ > 1) REKINDLE_CHECK(gather_sums());
    REKINDLE_CHECK(await());
    if (ranks_ > 1) REKINDLE_CHECK(all_have_sent());
    for (int rank = 0; rank < ranks_; ++rank) {
      for (std::size_t cut = 0; cut < cuts_.count(); ++cut) {
        const Shard part = cuts_.part(rank, cut);
        if (part.count > 0) reduced.pieces.push_back({part.first, {sums_of(rank, cut), part.count}});
      }
    }
    return reduced;
  }

  // Each owner gets its shard of the first `most` partial sums of every rank.
  Status move_partials(int most) {
    std::vector<std::span<float>> slots;
    for (int i = 0; i < std::min(most, partials(rank_)); ++i) {
      REKINDLE_TRY(slots.emplace_back(), parts_.slot(i));
    }
    return each_cut([&](std::size_t cut, NcclHandle comm, const auto& note) {
      const std::size_t mine = cuts_.part(rank_, cut).count;
      for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_) continue;
        const Shard theirs = cuts_.part(peer, cut);
        for (const std::span<float> slot : slots)
          if (theirs.count > 0)
            note(parts_.nccl->send(slot.data() + theirs.first, theirs.count, kNcclFloat, peer, comm,
                                   native()));
        for (int i = 0; i < std::min(most, partials(peer)); ++i)
          if (mine > 0)
            note(parts_.nccl->receive(window(peer, i, cut), mine, kNcclFloat, peer, comm, native()));
      }
    });
  }

  Status sum_own_shard() {
    for (std::size_t cut = 0; cut < cuts_.count(); ++cut) {
      const Shard own = cuts_.part(rank_, cut);
      if (own.count == 0) break;
      std::vector<const float*> partials;
      for (const Contribution& from : layout_.contributions) {
        if (from.rank == rank_) {
          REKINDLE_TRY(const std::span<float> slot, parts_.slot(from.slot));
          partials.push_back(slot.data() + own.first);
        } else {
          partials.push_back(window(from.rank, from.slot, cut));
        }
      }
      parts_.place.device->run(*parts_.place.stream,
                               tree_kernel(layout_.subtrees, partials, sums_of(rank_, cut), own.count));
    }
    return {};
  }

  Status gather_sums() {
    return each_cut([&](std::size_t cut, NcclHandle comm, const auto& note) {
      note(parts_.nccl->all_gather(sums_of(rank_, cut), sums_of(0, cut), cuts_.stride(cut), kNcclFloat, comm,
                                   native()));
    });
  }

  // One group for each cut: `calls(cut, comm, note)`.
  template <class Calls>
  Status each_cut(const Calls& calls) {
    for (std::size_t cut = 0; cut < cuts_.count(); ++cut) {
      REKINDLE_CHECK(group([&](NcclHandle comm, const auto& note) { calls(cut, comm, note); }));
      REKINDLE_CHECK(milestones_.add(parts_.place));
    }
    return {};
  }

  // `calls(comm, note)` passes the result of each call to `note`.
  template <class Calls>
  Status group(const Calls& calls) {
    Status status = link_->group([&](NcclHandle comm) {
      NcclCode first = NcclCode::kSuccess;
      calls(comm, [&first](NcclCode code) {
        if (first == NcclCode::kSuccess && code != NcclCode::kInProgress) first = code;
      });
      return first;
    });
    ++moved_;
    return status;
  }

  // Until everything on the stream is over. Whether the step is applied is decided here, once: an abort that
  // comes later is ignored.
  Status await() {
    REKINDLE_CHECK(milestones_.add(parts_.place));
    for (;;) {
      REKINDLE_TRY(const bool over, milestones_.are_over(*parts_.place.device, moved_));
      if (over) break;
      if (link_) REKINDLE_CHECK(link_->check());
      if (calls_.aborted()) return forward_error(aborted_error());
      std::this_thread::sleep_for(kPause);
    }
    if (calls_.aborted()) return forward_error(aborted_error());
    return {};
  }

  // Nothing is to be added, and nobody else needs it.
  bool sum_is_slot_0() const { return ranks_ == 1 && layout_.subtrees.size() == 1; }

  // An aborted kernel of NCCL does not stop: it leaves its waits, and goes on to tell its peers that data are
  // there which are not. A peer that is not aborted yet sees a good end. So the sums count when every rank
  // says that its own kernels had come to their end before it heard of an abort. A rank that fails says
  // nothing, and fails all others.
  Status all_have_sent() {
    REKINDLE_CHECK(host_->gather(StepHeader{}));
    return {};
  }

  struct InNccl {
    explicit InNccl(NcclExchange& of) : of(of) { of.in_nccl_ = of.ranks_ > 1; }
    ~InNccl() { of.in_nccl_ = false; }
    InNccl(const InNccl&) = delete;
    NcclExchange& of;
  };

  // On a full GPU it is NCCL's way that fails: the other one needs less memory.
  Result<Memory> memory(std::size_t floats) {
    auto taken = parts_.place.device->allocate(floats * sizeof(float));
    if (!taken && taken.error().code == ExitCode::kConfig && ranks_ > 1) {
      taken.error().kind = ErrorKind::kOther;
      taken.error().what += ", which the exchange by NCCL needs";
    }
    return taken;
  }
  int partials(int rank) const { return layout_.partials[static_cast<std::size_t>(rank)]; }
  float* sums_of(int rank, std::size_t cut) const { return sums_.floats().data() + cuts_.place(rank, cut); }
  std::size_t window_floats() const { return padded(cuts_.shard(rank_).count); }
  float* window(int peer, int slot, std::size_t cut) const {
    const std::size_t number = first_window_[static_cast<std::size_t>(peer)] + static_cast<std::size_t>(slot);
    return windows_.floats().data() + number * window_floats() + cuts_.begin(cut);
  }
  void* native() const { return parts_.place.stream->native(); }

  DeviceParts& parts_;
  const std::unique_ptr<Exchange> host_;
  const int rank_, ranks_;
  const Layout layout_;
  const NcclCuts cuts_;
  std::vector<std::size_t> first_window_;  // by rank
  Milestones milestones_;
  Memory sums_, windows_;
  CallStatus calls_;
  std::mutex mutex_;  // of link_, which another thread may abort
  std::unique_ptr<NcclLink> link_;
  std::atomic<bool> in_nccl_{false};
  std::atomic<std::uint64_t> moved_{0};
};

}  // namespace

std::unique_ptr<Exchange> make_nccl_exchange(DeviceParts& parts, std::unique_ptr<Exchange> host,
                                             const Plan& plan) {
  return std::make_unique<NcclExchange>(parts, std::move(host), plan);
}

}  // namespace rekindle::exchange
