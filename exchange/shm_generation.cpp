#include "exchange/shm_generation.hpp"

#include <poll.h>

#include <utility>

#include "exchange/futex.hpp"
#include "exchange/layout.hpp"

namespace rekindle::exchange {
namespace {

constexpr int kSpins = 64;   // a few microseconds: trainers and loader threads share the cores
constexpr int kTickMs = 10;  // the longest delay until an abort or a peer's death is noticed

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

Status ShmGeneration::meet() {
  claim_page();
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == plan_.rank) continue;
    REKINDLE_TRY(ShmPeer peer, ShmPeer::open(plan_.members[rank], rank, memory_.floats()));
    peers_.push_back(std::move(peer));
  }
  const auto find = [&](ShmPeer& peer) { return peer.find(plan_.term, plan_.generation); };
  for (ShmPeer& peer : peers_) REKINDLE_CHECK(wait_until(peer, find, find));
  for (const ShmPeer& peer : peers_)
    if (peer.plan_hash() != plan_hash(plan_))
      return fail_rank(peer.rank(), "it was given another plan for this generation");
  memory_.claim_slots(*page_);
  return {};
}

// The mutex is needed because abort() may come at any time.
void ShmGeneration::claim_page() {
  const std::lock_guard lock(page_mutex_);
  page_ = &memory_.claim_page(plan_, plan_hash(plan_));
  stamp_ = page_->stamp.load(std::memory_order_relaxed);
  if (status_.aborted()) leave();
}

void ShmGeneration::leave() noexcept {
  // If an exchange outlives its generation by far, its page belongs to a later exchange.
  if (page_ == nullptr || page_->stamp.load(std::memory_order_relaxed) != stamp_) return;
  page_->left.store(1, std::memory_order_seq_cst);
  memory_.ring();
}

void ShmGeneration::abort() noexcept {
  const std::lock_guard lock(page_mutex_);
  leave();  // first: after the step loop sees the abort, it may continue and later write to the slots
  status_.abort();
}

Status ShmGeneration::check_not_aborted() const {
  if (status_.aborted()) return forward_error(aborted_error());
  return {};
}

Status ShmGeneration::wait_for_all(Published wanted) {
  const auto reached = [&](const ShmPeer& peer) { return wanted.by(peer); };
  for (ShmPeer& peer : peers_) REKINDLE_CHECK(wait_until(peer, reached, reached));
  return {};
}

Status ShmGeneration::wait_for(ShmPeer& peer, Published wanted, Published last) {
  return wait_until(
      peer, [&](const ShmPeer& p) { return wanted.by(p); }, [&](const ShmPeer& p) { return last.by(p); });
}

// Spins briefly, then sleeps. `given`: whether a peer has published all that it must, so that it may leave.
template <class Reached, class Given>
Status ShmGeneration::wait_until(ShmPeer& peer, Reached reached, Given given) {
  for (int i = 0; i < kSpins; ++i) {
    if (reached(peer)) return {};
    pause_briefly();
  }
  return waiting_.during(peer.rank(), [&] { return sleep_until(peer, reached, given); });
}

// Waits on the futex word of the peer.
template <class Reached, class Given>
Status ShmGeneration::sleep_until(ShmPeer& peer, Reached reached, Given given) {
  for (;;) {
    const std::uint32_t bell = peer.bell().load(std::memory_order_acquire);
    if (reached(peer)) return {};
    REKINDLE_CHECK(check_not_aborted());
    futex_wait(peer.bell(), bell, kTickMs);
    REKINDLE_CHECK(check_peers(given));
  }
}

// Fails if a rank that still has to publish something no longer can. If a peer published everything and
// left, that is not a failure. If one peer died and others left, the dead peer is reported as the cause.
template <class Given>
Status ShmGeneration::check_peers(Given given) {
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

}  // namespace rekindle::exchange
