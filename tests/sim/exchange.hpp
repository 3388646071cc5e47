// The virtual data plane: the ranks of a generation meet, post headers, and read each other's memory, which
// may change meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exchange/exchange.hpp"
#include "model.hpp"

namespace rekindle::sim {

class TrainerProcess;

// One operation of one rank.
struct Posted {
  char operation = 0;  // must be equal on all ranks, otherwise the exchange is broken
  exchange::StepHeader header;
  std::vector<std::span<std::byte>> gives;  // the memory to copy from
  std::vector<float> sums;                  // on devices: of this rank's shard
  bool tainted = false;                     // whether the data of this rank contain a flipped bit
};

struct Seat {
  TrainerProcess* trainer = nullptr;  // null: not connected yet
  bool left = false;                  // left the exchange, or died
  bool gone_on = false;               // may use its memory for another generation
  std::vector<Posted> posted;         // the data posted, by operation
  std::size_t reads = 0;              // number of release() calls
  std::uint64_t writer = 0;  // number of this generation among the generations that wrote to its slots
};

struct Meeting {
  std::vector<Seat> seats;  // by rank
  void changed();           // wakes all members to check their conditions
};

// The data links between workers.
class DataLinks {
 public:
  void block(const std::string& a, const std::string& b) { blocked_.insert(std::minmax(a, b)); }
  void unblock(const std::string& a, const std::string& b) { blocked_.erase(std::minmax(a, b)); }
  void break_off(const std::string& a, const std::string& b) { broken_.insert(std::minmax(a, b)); }
  void mend(const std::string& a, const std::string& b) { broken_.erase(std::minmax(a, b)); }
  bool blocked(const std::string& a, const std::string& b) const {
    return blocked_.contains(std::minmax(a, b));
  }
  bool broken(const std::string& a, const std::string& b) const {
    return broken_.contains(std::minmax(a, b));
  }

 private:
  std::set<std::pair<std::string, std::string>> blocked_, broken_;
};

class SimExchange final : public exchange::Exchange {
 public:
  SimExchange(TrainerProcess& trainer, const exchange::Plan& plan);
  ~SimExchange() override;

  Status connect() override;
  Result<exchange::Reduced> reduce(const exchange::StepHeader& mine) override;
  bool slot_0_overwritten() const override { return slot_0_overwritten_; }
  bool sums_unchanged() const override;
  Status release() override;
  Result<std::vector<exchange::StepHeader>> gather(const exchange::StepHeader& mine) override;
  using Exchange::all_gather;
  Status all_gather(exchange::RankPieces pieces, const std::vector<bool>& receives) override;
  void abort() noexcept override;
  int waiting_for() const noexcept override;
  std::uint64_t activity() const noexcept override { return 0; }
  exchange::Backend backend() const override { return exchange::Backend::kSharedMemory; }

 private:
  using There = std::function<bool(const Seat&)>;
  // -1: all ranks are there; -2: the exchange is broken; otherwise the first missing rank that this rank can
  // see.
  int missing(const There& there);
  Status wait_for_all(const There& there);
  Status pass(std::int64_t ms);  // lets virtual time pass
  Result<std::vector<exchange::StepHeader>> meet(Posted mine);
  Status sum_own_shard();
  Status gather_sums();
  Status no_peer_has_gone_on();
  Status failed(int peer);
  Status nccl_works(bool connects);
  std::vector<exchange::LeafRange> subtrees() const;
  Seat& seat() { return meeting_.seats[static_cast<std::size_t>(plan_.rank)]; }
  int ranks() const { return static_cast<int>(plan_.members.size()); }

  TrainerProcess& trainer_;
  const exchange::Plan plan_;
  Meeting& meeting_;
  bool on_devices() const;

  bool slot_0_overwritten_ = false, broken_ = false;
  Gradient sums_{};  // on devices
  int peer_ = -1;    // the peer that broke the exchange
};

// The gradient memory, which peers read.
class SimHub final : public exchange::Hub {
 public:
  explicit SimHub(TrainerProcess& trainer) : trainer_(trainer) {}
  exchange::Endpoint endpoint() const override;
  std::size_t floats() const override { return kFloats; }
  Result<std::span<float>> slot(int i) override { return std::span<float>(slots_[i]); }
  std::unique_ptr<exchange::Exchange> make(const exchange::Plan& plan) override;
  Gradient& slot_at(int i) { return slots_[i]; }
  // The number of generations that have written to the slots.
  std::uint64_t writers() const { return writers_; }
  void claim_slots() { ++writers_; }

 private:
  TrainerProcess& trainer_;
  std::map<int, Gradient> slots_;  // a map, because the address of a slot must never change
  std::uint64_t writers_ = 0;
};

}  // namespace rekindle::sim
