#include "exchange/shm_exchange.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/text.hpp"
#include "exchange/byte_cursor.hpp"
#include "exchange/failure.hpp"
#include "exchange/futex.hpp"
#include "exchange/layout.hpp"
#include "exchange/shm_peer.hpp"

namespace rekindle::exchange {
namespace {

constexpr int kSpins = 64;   // a few microseconds: trainers and loader threads share the cores
constexpr int kTickMs = 10;  // how late an abort or a peer's death may be seen
constexpr std::size_t kSumChunk = std::size_t{1} << 20;  // floats between two looks at the abort flag

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class ShmExchange final : public Exchange {
 public:
  ShmExchange(LocalMemory& memory, const Plan& plan) : memory_(memory), plan_(plan) {}
  ~ShmExchange() override { leave(); }

  Status connect() override {
    return fate_.guard([&] { return meet(); });
  }
  Result<Reduced> reduce(const StepHeader& mine) override {
    return fate_.guard([&] { return sum(mine); });
  }
  Status release() override {
    return fate_.guard([&] { return finish_reading(); });
  }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override {
    return fate_.guard([&] { return contribute(mine); });
  }
  Status all_gather(std::span<const std::vector<std::span<std::byte>>> pieces) override {
    return fate_.guard([&] { return copy_around(pieces); });
  }
  void abort() noexcept override {
    const std::lock_guard lock(page_mutex_);
    leave();  // first: once the step loop sees the abort it may go on, and one day write to the slots
    fate_.abort();
  }
  Backend backend() const override { return Backend::kSharedMemory; }

 private:
  int ranks() const { return static_cast<int>(plan_.members.size()); }

  Status meet() {
    REKINDLE_CHECK(check_plan(plan_));
    layout_ = make_layout(plan_.leaves, ranks());
    claim_page();
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == plan_.rank) continue;
      REKINDLE_TRY(ShmPeer peer, ShmPeer::open(plan_.members[rank], rank, memory_.floats()));
      peers_.push_back(std::move(peer));
    }
    REKINDLE_CHECK(wait_for_all([&](ShmPeer& peer) { return peer.find(plan_.term, plan_.generation); }));
    for (const ShmPeer& peer : peers_)
      if (peer.plan_hash() != plan_hash(plan_))
        return fail_rank(peer.rank(), "it was given another plan for this generation");
    return {};
  }

  // Contribution r: this rank's header, and with it whatever it has put into its slots before.
  Result<std::vector<StepHeader>> contribute(const StepHeader& mine) {
    ++round_;
    // Two headers suffice: who writes round r's has seen round r - 1's of everybody, and a rank publishes r -
    // 1 only after it has read all headers of r - 2.
    page_->headers[round_ % 2] = mine;
    memory_.publish(page_->contributed, round_);
    REKINDLE_CHECK(wait_for_all(&GenerationPage::contributed, round_));
    std::vector<StepHeader> headers(plan_.members.size());
    headers[plan_.rank] = mine;
    for (const ShmPeer& peer : peers_) {
      headers[peer.rank()] = peer.header(round_);
      if (!peer.still_here() && !peer.reached(&GenerationPage::contributed, round_))
        return fail_rank(peer.rank(), "it has gone on to another generation");
    }
    return headers;
  }

  // Why the sum may overwrite slot 0 in place: between everybody's `contributed` and everybody's `ready`,
  // shard r of any slot of any rank is read by r's owner alone, and the only write is that owner's, to shard
  // r of its own slot 0, element by element after reading it. After `ready` nobody writes until everybody's
  // `read_done`.
  Result<Reduced> sum(const StepHeader& mine) {
    if (reading_) return fail("reduce() was called before release()");
    for (int i = 0; i < layout_.partials[plan_.rank]; ++i) REKINDLE_CHECK(memory_.slot(i));
    REKINDLE_TRY(const std::span<float> own, memory_.slot(0));
    Reduced reduced;
    REKINDLE_TRY(reduced.headers, contribute(mine));

    const Shard shard = shard_of(own.size(), ranks(), plan_.rank);
    std::vector<const float*> partials;
    for (const Contribution& c : layout_.contributions) {
      REKINDLE_TRY(const float* slot, slot_of(c));
      partials.push_back(slot + shard.first);
    }
    for (std::size_t done = 0; done < shard.count; done += kSumChunk) {
      if (fate_.aborted()) return forward_error(aborted_error());
      const std::size_t count = std::min(kSumChunk, shard.count - done);
      finish_tree(plan_.leaves, layout_.subtrees, partials, own.data() + shard.first + done, count);
      for (const float*& partial : partials) partial += count;
    }
    // A peer that was aborted meanwhile may have begun to overwrite what was read here: such a sum must never
    // be declared ready, for a third rank would take it.
    for (const ShmPeer& peer : peers_)
      if (!peer.still_here()) return fail_rank(peer.rank(), "it left the generation");
    memory_.publish(page_->ready, round_);
    REKINDLE_CHECK(wait_for_all(&GenerationPage::ready, round_));

    for (int rank = 0; rank < ranks(); ++rank) {
      const Shard s = shard_of(own.size(), ranks(), rank);
      if (s.count == 0) continue;
      REKINDLE_TRY(const float* slot, slot_of({rank, 0}));
      reduced.pieces.push_back({s.first, std::span(slot + s.first, s.count)});
    }
    reading_ = true;
    return reduced;
  }

  Status finish_reading() {
    if (!reading_) return {};
    reading_ = false;
    memory_.publish(page_->read_done, round_);
    return wait_for_all(&GenerationPage::read_done, round_);
  }

  // Every rank puts its bytes into its staging memory, half by half; chunk n of all calls goes to half n % 2,
  // which is free when everybody has copied chunk n - 2 out.
  Status copy_around(std::span<const std::vector<std::span<std::byte>>> pieces) {
    if (pieces.size() != plan_.members.size())
      return fail(str("all_gather of ", pieces.size(), " ranks' pieces among ", ranks()));
    if (peers_.empty()) return {};
    REKINDLE_TRY(const std::span<std::byte> staging, memory_.staging());
    std::size_t longest = 0;
    std::vector<ByteCursor> cursors;
    for (const auto& of_rank : pieces) {
      longest = std::max(longest, total_bytes(of_rank));
      cursors.emplace_back(of_rank);
    }
    REKINDLE_CHECK(agree_on_sizes(sizes_hash(pieces)));
    for (std::size_t first = 0; first < longest; first += kStagingHalf) {
      const std::uint64_t chunk = ++chunks_;
      const std::size_t half = chunk % 2 * kStagingHalf;
      if (chunk > 2) REKINDLE_CHECK(wait_for_all(&GenerationPage::copied, chunk - 2));
      cursors[plan_.rank].read(staging.subspan(half, kStagingHalf));
      memory_.publish(page_->staged, chunk);
      for (ShmPeer& peer : peers_) {
        const std::size_t bytes = total_bytes(pieces[peer.rank()]);
        if (bytes <= first) continue;
        REKINDLE_CHECK(wait_for(peer, &GenerationPage::staged, chunk));
        REKINDLE_TRY(const std::byte* theirs, peer.staging());
        cursors[peer.rank()].write({theirs + half, std::min(kStagingHalf, bytes - first)});
        if (!peer.still_here()) return fail_rank(peer.rank(), "it left the generation");
      }
      memory_.publish(page_->copied, chunk);
    }
    return wait_for_all(&GenerationPage::copied, chunks_);
  }

  // Counts as a chunk without bytes.
  Status agree_on_sizes(std::uint64_t hash) {
    const std::uint64_t chunk = ++chunks_;
    page_->sizes_hash.store(hash, std::memory_order_relaxed);
    memory_.publish(page_->staged, chunk);
    REKINDLE_CHECK(wait_for_all(&GenerationPage::staged, chunk));
    for (const ShmPeer& peer : peers_)
      if (peer.sizes_hash() != hash) return fail_rank(peer.rank(), "it gathers other sizes than this rank");
    memory_.publish(page_->copied, chunk);
    // Nobody may change its hash (next call) before everybody has compared it.
    return wait_for_all(&GenerationPage::copied, chunk);
  }

  Result<const float*> slot_of(Contribution c) {
    if (c.rank == plan_.rank) {
      REKINDLE_TRY(const std::span<float> own, memory_.slot(c.slot));
      return own.data();
    }
    return peers_[c.rank < plan_.rank ? c.rank : c.rank - 1].slot(c.slot);
  }

  Status wait_for_all(const Word GenerationPage::*word, std::uint64_t value) {
    return wait_for_all([&](ShmPeer& peer) { return peer.reached(word, value); });
  }
  Status wait_for(ShmPeer& peer, const Word GenerationPage::*word, std::uint64_t value) {
    return wait_until(peer, [&](ShmPeer& p) { return p.reached(word, value); });
  }
  template <class Reached>
  Status wait_for_all(Reached reached) {
    for (ShmPeer& peer : peers_) REKINDLE_CHECK(wait_until(peer, reached));
    return {};
  }

  // Spins briefly, then sleeps on the peer's bell.
  template <class Reached>
  Status wait_until(ShmPeer& peer, Reached reached) {
    for (int i = 0; i < kSpins; ++i) {
      if (reached(peer)) return {};
      pause_briefly();
    }
    for (;;) {
      const std::uint32_t bell = peer.bell().load(std::memory_order_acquire);
      if (reached(peer)) return {};
      if (fate_.aborted()) return forward_error(aborted_error());
      futex_wait(peer.bell(), bell, kTickMs);
      REKINDLE_CHECK(check_peers(reached));
    }
  }

  // Fails if somebody who still owes something can no longer give it. A peer that published everything and
  // then went its way is no failure; a dead one is the cause rather than one who left because of it.
  template <class Reached>
  Status check_peers(Reached reached) {
    std::vector<bool> left;
    std::vector<pollfd> deaths;
    for (const ShmPeer& peer : peers_) {
      left.push_back(peer.left());
      deaths.push_back({peer.process(), POLLIN, 0});
    }
    ::poll(deaths.data(), deaths.size(), 0);
    int dead = -1, first_owing = -1;
    bool owing_dead = false;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const bool is_dead = deaths[i].revents != 0;
      if (!is_dead && !left[i]) continue;
      const bool owes = !reached(peers_[i]);
      if (is_dead && (dead < 0 || (owes && !owing_dead))) {
        dead = peers_[i].rank();
        owing_dead = owes;
      }
      if (owes && first_owing < 0) first_owing = peers_[i].rank();
    }
    if (first_owing < 0) return {};
    if (dead >= 0) return fail_rank(dead, "its process is gone");
    return fail_rank(first_owing, "it left the generation");
  }

  // Under a mutex because abort() may come before, during and after.
  void claim_page() {
    const std::lock_guard lock(page_mutex_);
    page_ = &memory_.claim_page(plan_, plan_hash(plan_));
    stamp_ = page_->stamp.load(std::memory_order_relaxed);
    if (fate_.aborted()) leave();
  }
  void leave() noexcept {
    // An exchange that outlives its generation by far finds its page in other hands.
    if (page_ == nullptr || page_->stamp.load(std::memory_order_relaxed) != stamp_) return;
    page_->left.store(1, std::memory_order_seq_cst);
    memory_.ring();
  }

  LocalMemory& memory_;
  const Plan plan_;
  Fate fate_;
  Layout layout_;
  std::mutex page_mutex_;
  GenerationPage* page_ = nullptr;
  std::uint64_t stamp_ = 0;
  std::vector<ShmPeer> peers_;  // by rank, without this one
  std::uint64_t round_ = 0;     // contributions so far
  std::uint64_t chunks_ = 0;    // all_gather chunks so far
  bool reading_ = false;        // between reduce() and release()
};

}  // namespace

std::unique_ptr<Exchange> make_shm_exchange(LocalMemory& memory, const Plan& plan) {
  return std::make_unique<ShmExchange>(memory, plan);
}

}  // namespace rekindle::exchange
