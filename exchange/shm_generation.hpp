// The members of one generation on this host, as one of them sees the others: its own page, the peers' pages,
// and how it waits for the peers.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "exchange/failure.hpp"
#include "exchange/local_memory.hpp"
#include "exchange/shm_peer.hpp"
#include "exchange/waiting.hpp"

namespace rekindle::exchange {

// A word of a page, and the value that the word has to reach.
struct Published {
  const Word GenerationPage::*word;
  std::uint64_t value;
  bool by(const ShmPeer& peer) const { return peer.reached(word, value); }
};

// Only abort() may be called from any thread; all other calls come from the step loop.
class ShmGeneration {
 public:
  // `status` and `waiting` belong to the exchange.
  ShmGeneration(LocalMemory& memory, const Plan& plan, CallStatus& status, WaitingFor& waiting)
      : memory_(memory), plan_(plan), status_(status), waiting_(waiting) {}
  ~ShmGeneration() { leave(); }
  ShmGeneration(const ShmGeneration&) = delete;
  ShmGeneration& operator=(const ShmGeneration&) = delete;

  // Publishes this rank's page, waits for the pages of all peers, and takes the slots for this generation.
  Status meet();
  // Leaves the generation, and makes all waits fail.
  void abort() noexcept;
  // An error after abort().
  Status check_not_aborted() const;

  int rank() const { return plan_.rank; }
  int ranks() const { return static_cast<int>(plan_.members.size()); }
  GenerationPage& page() { return *page_; }         // valid after meet()
  std::vector<ShmPeer>& peers() { return peers_; }  // by rank, without this one
  const std::vector<ShmPeer>& peers() const { return peers_; }
  ShmPeer& peer(int rank) { return peers_[rank < plan_.rank ? rank : rank - 1]; }

  // Stores the value in this rank's page, and wakes all peers.
  void publish(Word GenerationPage::*word, std::uint64_t value) { memory_.publish(page_->*word, value); }
  // Waits until every peer has published this.
  Status wait_for_all(Published wanted);
  // Waits until one peer has published `wanted`. If any peer is lost that has not published `last`, the wait
  // fails.
  Status wait_for(ShmPeer& peer, Published wanted, Published last);
  // Called when bytes have moved.
  void moved() noexcept { waiting_.moved(); }

 private:
  template <class Reached, class Given>
  Status wait_until(ShmPeer& peer, Reached reached, Given given);
  template <class Reached, class Given>
  Status sleep_until(ShmPeer& peer, Reached reached, Given given);
  template <class Given>
  Status check_peers(Given given);
  void claim_page();
  void leave() noexcept;

  LocalMemory& memory_;
  const Plan& plan_;
  CallStatus& status_;
  WaitingFor& waiting_;
  std::mutex page_mutex_;
  GenerationPage* page_ = nullptr;
  std::uint64_t stamp_ = 0;  // of page_ while the page belongs to this generation
  std::vector<ShmPeer> peers_;
};

}  // namespace rekindle::exchange
