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
#include "exchange/waiting.hpp"

namespace rekindle::exchange {
namespace {

constexpr int kSpins = 64;   // a few microseconds: trainers and loader threads share the cores
constexpr int kTickMs = 10;  // the longest delay until an abort or a peer's death is noticed
constexpr std::size_t kSumChunk = std::size_t{1} << 20;  // floats between two checks of the abort flag

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

class ShmExchange final : public Exchange {
 public:
  ShmExchange(LocalMemory& memory, const Plan& plan) : memory_(memory), plan_(plan) {}
  ~ShmExchange() override { leave(); }

  Status connect() override {
    return status_.guard([&] { return meet(); });
  }
  Result<Reduced> reduce(const StepHeader& mine) override {
    overwritten_ = false;
    return status_.guard([&] { return sum(mine); });
  }
  bool slot_0_spoilt() const override { return overwritten_; }
  bool sums_unchanged() const override {
    return std::ranges::all_of(peers_, [](const ShmPeer& peer) { return peer.slots_kept(); });
  }
  Status release() override {
    return status_.guard([&] { return finish_reading(); });
  }
  Result<std::vector<StepHeader>> gather(const StepHeader& mine) override {
    return status_.guard([&] { return contribute(mine); });
  }
  Status all_gather(RankPieces pieces, const std::vector<bool>& receives) override {
    return status_.guard([&] { return copy_around(pieces, receives); });
  }
  void abort() noexcept override {
    const std::lock_guard lock(page_mutex_);
    leave();  // first: after the step loop sees the abort, it may continue and later write to the slots
    status_.abort();
  }
  int waiting_for() const noexcept override { return waiting_.rank(); }
  std::uint64_t activity() const noexcept override { return waiting_.activity(); }
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
    memory_.claim_slots(*page_);
    return {};
  }

  // Contribution of round r: this rank's header, and everything it wrote to its slots before.
  Result<std::vector<StepHeader>> contribute(const StepHeader& mine) {
    ++round_;
    // Two headers suffice: a rank writes the header of round r only after it has seen round r - 1 of all
    // ranks, and a rank publishes r - 1 only after it has read all headers of r - 2.
    page_->headers[round_ % 2] = mine;
    memory_.publish(page_->contributed, round_);
    REKINDLE_CHECK(wait_for_all(&GenerationPage::contributed, round_));
    std::vector<StepHeader> headers(plan_.members.size());
    headers[plan_.rank] = mine;
    for (const ShmPeer& peer : peers_) {
      headers[peer.rank()] = peer.header(round_);
      if (!peer.still_here() && !peer.reached(&GenerationPage::contributed, round_))
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

    const Shard shard = shard_of(own.size(), ranks(), plan_.rank);
    std::vector<const float*> partials;
    for (const Contribution& c : layout_.contributions) {
      REKINDLE_TRY(const float* slot, slot_of(c));
      partials.push_back(slot + shard.first);
    }
    overwritten_ = true;
    for (std::size_t done = 0; done < shard.count; done += kSumChunk) {
      if (status_.aborted()) return forward_error(aborted_error());
      const std::size_t count = std::min(kSumChunk, shard.count - done);
      finish_tree(plan_.leaves, layout_.subtrees, partials, own.data() + shard.first + done, count);
      for (const float*& partial : partials) partial += count;
      waiting_.moved();
    }
    // A peer that was aborted meanwhile may have begun to overwrite the slots that were read here. Such a sum
    // must never be published as ready, because a third rank would use it.
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

  // Every rank copies its bytes into its staging memory, and the receiving ranks copy them from there. Chunk
  // n, counted over all calls, goes to block n % kStagingBlocks, which is free when all ranks have copied
  // chunk n - kStagingBlocks. So a source stages the next chunks while peers read the last ones.
  Status copy_around(RankPieces pieces, const std::vector<bool>& receives) {
    REKINDLE_CHECK(check_copy(pieces, receives, ranks()));
    if (peers_.empty()) return {};
    REKINDLE_CHECK(agree_on_copy(copy_hash(pieces, receives)));
    std::vector<Stream> streams;
    std::size_t longest = 0;
    for (const auto& of_rank : pieces) {
      streams.push_back({ByteCursor(of_rank), total_bytes(of_rank)});
      longest = std::max(longest, streams.back().left);
    }
    last_chunk_ = chunks_ + (longest + kStagingBlock - 1) / kStagingBlock;
    while (chunks_ < last_chunk_) {
      if (status_.aborted()) return forward_error(aborted_error());
      ++chunks_;
      if (streams[plan_.rank].left > 0) REKINDLE_CHECK(stage(streams[plan_.rank]));
      if (receives[plan_.rank]) REKINDLE_CHECK(copy_out(streams));
      memory_.publish(page_->copied, chunks_);
      waiting_.moved();
    }
    return wait_for_all(&GenerationPage::copied, chunks_);
  }

  // The bytes that one rank contributes.
  struct Stream {
    ByteCursor cursor;
    std::size_t left = 0;  // bytes
    std::size_t take_chunk() {
      const std::size_t bytes = std::min(kStagingBlock, left);
      left -= bytes;
      return bytes;
    }
  };
  std::size_t block() const { return chunks_ % kStagingBlocks * kStagingBlock; }

  Status stage(Stream& mine) {
    REKINDLE_TRY(const std::span<std::byte> staging, memory_.staging());
    for (ShmPeer& peer : peers_)
      if (chunks_ > kStagingBlocks)
        REKINDLE_CHECK(wait_in_copy(peer, &GenerationPage::copied, chunks_ - kStagingBlocks));
    mine.cursor.read(staging.subspan(block(), mine.take_chunk()));
    memory_.publish(page_->staged, chunks_);
    return {};
  }

  Status copy_out(std::vector<Stream>& streams) {
    for (ShmPeer& peer : peers_) {
      Stream& theirs = streams[peer.rank()];
      if (theirs.left == 0) continue;
      REKINDLE_CHECK(wait_in_copy(peer, &GenerationPage::staged, chunks_));
      REKINDLE_TRY(const std::byte* staging, peer.staging());
      theirs.cursor.write({staging + block(), theirs.take_chunk()});
      if (!peer.still_here()) return fail_rank(peer.rank(), "it left the generation");
    }
    return {};
  }

  // If a third rank is lost during the copy, the wait fails, even if that rank is ahead of the chunk waited
  // for: the ranks that copy from it stop.
  Status wait_in_copy(ShmPeer& peer, const Word GenerationPage::*word, std::uint64_t chunk) {
    return wait_until(
        peer, [&](ShmPeer& p) { return p.reached(word, chunk); },
        [&](ShmPeer& p) { return p.reached(&GenerationPage::copied, last_chunk_); });
  }

  // Takes one chunk number without any bytes.
  Status agree_on_copy(std::uint64_t hash) {
    ++chunks_;
    page_->copy_hash.store(hash, std::memory_order_relaxed);
    memory_.publish(page_->staged, chunks_);
    REKINDLE_CHECK(wait_for_all(&GenerationPage::staged, chunks_));
    for (const ShmPeer& peer : peers_)
      if (peer.copy_hash() != hash) return fail_rank(peer.rank(), kOtherCopy);
    memory_.publish(page_->copied, chunks_);
    // No rank may change its hash (in the next call) before all ranks have compared it.
    return wait_for_all(&GenerationPage::copied, chunks_);
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
  template <class Reached>
  Status wait_for_all(Reached reached) {
    for (ShmPeer& peer : peers_) REKINDLE_CHECK(wait_until(peer, reached, reached));
    return {};
  }

  // Spins briefly, then sleeps. `given`: whether a peer has published all that it must, so that it may leave.
  template <class Reached, class Given>
  Status wait_until(ShmPeer& peer, Reached reached, Given given) {
    for (int i = 0; i < kSpins; ++i) {
      if (reached(peer)) return {};
      pause_briefly();
    }
    return waiting_.during(peer.rank(), [&] { return sleep_until(peer, reached, given); });
  }

  // Waits on the futex word of the peer.
  template <class Reached, class Given>
  Status sleep_until(ShmPeer& peer, Reached reached, Given given) {
    for (;;) {
      const std::uint32_t bell = peer.bell().load(std::memory_order_acquire);
      if (reached(peer)) return {};
      if (status_.aborted()) return forward_error(aborted_error());
      futex_wait(peer.bell(), bell, kTickMs);
      REKINDLE_CHECK(check_peers(given));
    }
  }

  // Fails if a rank that still has to publish something no longer can. If a peer published everything and
  // left, that is not a failure. If one peer died and others left, the dead peer is reported as the cause.
  template <class Given>
  Status check_peers(Given given) {
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
      const bool owes = !given(peers_[i]);
      if (is_dead && (dead < 0 || (owes && !owing_dead))) {
        dead = peers_[i].rank();
        owing_dead = owes;
      }
      if (owes && first_owing < 0) first_owing = peers_[i].rank();
    }
    if (first_owing < 0) return {};
    if (dead >= 0) return fail_rank(dead, "its process has died");
    return fail_rank(first_owing, "it left the generation");
  }

  // The mutex is needed because abort() may come at any time.
  void claim_page() {
    const std::lock_guard lock(page_mutex_);
    page_ = &memory_.claim_page(plan_, plan_hash(plan_));
    stamp_ = page_->stamp.load(std::memory_order_relaxed);
    if (status_.aborted()) leave();
  }
  void leave() noexcept {
    // If an exchange outlives its generation by far, its page belongs to a later exchange.
    if (page_ == nullptr || page_->stamp.load(std::memory_order_relaxed) != stamp_) return;
    page_->left.store(1, std::memory_order_seq_cst);
    memory_.ring();
  }

  LocalMemory& memory_;
  const Plan plan_;
  CallStatus status_;
  WaitingFor waiting_;
  Layout layout_;
  std::mutex page_mutex_;
  GenerationPage* page_ = nullptr;
  std::uint64_t stamp_ = 0;
  std::vector<ShmPeer> peers_;    // by rank, without this one
  std::uint64_t round_ = 0;       // contributions so far
  std::uint64_t chunks_ = 0;      // all_gather chunks so far
  std::uint64_t last_chunk_ = 0;  // of the current all_gather
  bool reading_ = false;          // between reduce() and release()
  bool overwritten_ = false;      // slot 0, by this rank's sums
};

}  // namespace

std::unique_ptr<Exchange> make_shm_exchange(LocalMemory& memory, const Plan& plan) {
  return std::make_unique<ShmExchange>(memory, plan);
}

}  // namespace rekindle::exchange
