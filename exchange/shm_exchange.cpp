#include "exchange/shm_exchange.hpp"

#include <algorithm>

#include "exchange/failure.hpp"
#include "exchange/layout.hpp"
#include "exchange/shm_copy.hpp"
#include "exchange/shm_generation.hpp"

namespace rekindle::exchange {
namespace {

constexpr std::size_t kSumChunk = std::size_t{1} << 20;  // floats between two checks of the abort flag

class ShmExchange final : public Exchange {
 public:
  ShmExchange(LocalMemory& memory, const Plan& plan) : memory_(memory), plan_(plan) {}

  Status connect() override {
    return status_.guard([&] { return meet(); });
  }
  Result<Reduced> reduce(const StepHeader& mine) override {
    overwritten_ = false;
    return status_.guard([&] { return sum(mine); });
  }
  bool slot_0_overwritten() const override { return overwritten_; }
  bool sums_unchanged() const override {
    return std::ranges::all_of(generation_.peers(), [](const ShmPeer& peer) { return peer.slots_kept(); });
  }
  Status release() override {
    return status_.guard([&] { return finish_reading(); });
  }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override {
    return status_.guard([&] { return contribute(mine); });
  }
  Status all_gather(RankPieces pieces, const std::vector<bool>& receives) override {
    return status_.guard([&] { return copy_.run(pieces, receives); });
  }
  void abort() noexcept override { generation_.abort(); }
  int waiting_for() const noexcept override { return waiting_.rank(); }
  std::uint64_t activity() const noexcept override { return waiting_.activity(); }
  Backend backend() const override { return Backend::kSharedMemory; }

 private:
  Status meet() {
    REKINDLE_CHECK(check_plan(plan_));
    layout_ = make_layout(plan_.leaves, generation_.ranks());
    return generation_.meet();
  }

  // Contribution of round r: this rank's header, and everything it wrote to its slots before.
  Result<std::vector<StepHeader>> contribute(const StepHeader& mine) {
    ++round_;
    // Two headers suffice: a rank writes the header of round r only after it has seen round r - 1 of all
    // ranks, and a rank publishes r - 1 only after it has read all headers of r - 2.
    generation_.page().headers[round_ % 2] = mine;
    generation_.publish(&GenerationPage::contributed, round_);
    const Published contributed{&GenerationPage::contributed, round_};
    REKINDLE_CHECK(generation_.wait_for_all(contributed));
    std::vector<StepHeader> headers(plan_.members.size());
    headers[plan_.rank] = mine;
    for (const ShmPeer& peer : generation_.peers()) {
      headers[peer.rank()] = peer.header(round_);
      if (!peer.still_here() && !contributed.by(peer))
        return fail_rank(peer.rank(), "it has moved on to another generation");
    }
    return headers;
  }

  // Why the sum may overwrite slot 0 in place: between `contributed` and `ready` of all ranks, only the owner
  // of shard r reads shard r of any slot of any rank. The owner's only write goes to shard r of its own slot
  // 0, to each element after reading it. After `ready` no rank writes until `read_done` of all ranks.
  Result<Reduced> sum(const StepHeader& mine) {
    if (reading_) return fail("reduce() was called before release()");
    for (int i = 0; i < layout_.partials[plan_.rank]; ++i) REKINDLE_CHECK(memory_.slot(i));
    REKINDLE_TRY(const std::span<float> own, memory_.slot(0));
    Reduced reduced;
    REKINDLE_TRY(reduced.headers, contribute(mine));

    const Shard shard = shard_of(own.size(), generation_.ranks(), plan_.rank);
    REKINDLE_CHECK(sum_shard(own.subspan(shard.first, shard.count), shard));
    // A peer that was aborted meanwhile may have begun to overwrite the slots that were read here. Such a sum
    // must never be published as ready, because a third rank would use it.
    for (const ShmPeer& peer : generation_.peers())
      if (!peer.still_here()) return fail_rank(peer.rank(), "it left the generation");
    generation_.publish(&GenerationPage::ready, round_);
    REKINDLE_CHECK(generation_.wait_for_all({&GenerationPage::ready, round_}));

    for (int rank = 0; rank < generation_.ranks(); ++rank) {
      const Shard s = shard_of(own.size(), generation_.ranks(), rank);
      if (s.count == 0) continue;
      REKINDLE_TRY(const float* slot, slot_of({rank, 0}));
      reduced.pieces.push_back({s.first, std::span(slot + s.first, s.count)});
    }
    reading_ = true;
    return reduced;
  }

  // The sums of this rank's shard over all partial sums. `to`: the shard in the own slot 0.
  Status sum_shard(std::span<float> to, const Shard& shard) {
    std::vector<const float*> partials;
    for (const Contribution& c : layout_.contributions) {
      REKINDLE_TRY(const float* slot, slot_of(c));
      partials.push_back(slot + shard.first);
    }
    overwritten_ = true;
    for (std::size_t done = 0; done < to.size(); done += kSumChunk) {
      REKINDLE_CHECK(generation_.check_not_aborted());
      const std::size_t count = std::min(kSumChunk, to.size() - done);
      finish_tree(plan_.leaves, layout_.subtrees, partials, to.data() + done, count);
      for (const float*& partial : partials) partial += count;
      generation_.moved();
    }
    return {};
  }

  Result<const float*> slot_of(Contribution c) {
    if (c.rank != plan_.rank) return generation_.peer(c.rank).slot(c.slot);
    REKINDLE_TRY(const std::span<float> own, memory_.slot(c.slot));
    return own.data();
  }

  Status finish_reading() {
    if (!reading_) return {};
    reading_ = false;
    generation_.publish(&GenerationPage::read_done, round_);
    return generation_.wait_for_all({&GenerationPage::read_done, round_});
  }

  LocalMemory& memory_;
  const Plan plan_;
  CallStatus status_;
  WaitingFor waiting_;
  Layout layout_;
  ShmGeneration generation_{memory_, plan_, status_, waiting_};
  ShmCopy copy_{memory_, generation_};
  std::uint64_t round_ = 0;   // contributions so far
  bool reading_ = false;      // between reduce() and release()
  bool overwritten_ = false;  // slot 0, by this rank's sums
};

}  // namespace

std::unique_ptr<Exchange> make_shm_exchange(LocalMemory& memory, const Plan& plan) {
  return std::make_unique<ShmExchange>(memory, plan);
}

}  // namespace rekindle::exchange
