// The data plane of one generation: sums gradients over its trainers, in the fixed tree order, and copies
// state.
//
// One Hub lives as long as its trainer process and owns the memory that peers may read; one Exchange lives as
// long as one generation. Calls of an Exchange come from one thread, the step loop, in the same order on
// every rank; only abort() (more than once) and waiting_for() may come from any thread at any time.
//
// A call that fails ends the Exchange: every later call fails too. Peers may then still be reading this
// rank's slots, so nothing may be written to them until connect() of the next generation has succeeded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/network.hpp"
#include "base/result.hpp"
#include "exchange/tree.hpp"

namespace rekindle::exchange {

enum class Backend { kAuto, kSharedMemory, kTcp };  // kAuto: shared memory if all members are on one host

// Where peers find a trainer. Travels through the control plane.
struct Endpoint {
  std::string host;      // boot id and pid namespace: equal means that shared memory works
  std::int64_t pid = 0;  // shared memory: /proc/PID/fd/CONTROL_FD is the control segment
  int control_fd = -1;
  std::string address;  // tcp: where the trainer listens
  std::uint16_t port = 0;
  std::string nonce;  // random, also in the control segment: a reused pid is not mistaken for the peer
};

// One generation's membership, the same on every rank but for `rank`.
struct Plan {
  std::uint64_t term = 0, generation = 0;
  int rank = 0;
  int leaves = 1;
  std::vector<Endpoint> members;  // by rank
  std::string secret;             // 32 random bytes (hex) per generation: proves a tcp peer is a member
  Backend backend = Backend::kAuto;
  bool integrity = true;  // tcp: every frame has an authentication tag
};

// What every rank adds to each step's exchange; every rank reads all of them.
struct StepHeader {
  std::uint32_t flags = 0;  // OR-ed
  std::uint32_t reserved = 0;
  std::int64_t loss = 0;  // sum over the rank's leaves, fixed point (2^-32): its sum has no order
  std::uint64_t correct = 0, count = 0;
  Hash128 state_hash;  // zero: none this step
  std::uint64_t compute_us = 0;
};
static_assert(sizeof(StepHeader) == 56);

// A range of the summed (not yet scaled) gradient. All pieces together tile the arena in order.
struct SumPiece {
  std::size_t first = 0;
  std::span<const float> sum;
};

struct Reduced {
  std::vector<StepHeader> headers;  // by rank
  std::vector<SumPiece> pieces;     // valid until release()
};

// By rank: local memory, in pieces.
using RankPieces = std::span<const std::vector<std::span<std::byte>>>;

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Meets all members. Blocks until all are there, or abort().
  virtual Status connect() = 0;

  // Sums over all leaves. The caller has put its partial sums into the hub's slots 0.. as leaf_ops() says.
  // When it returns a value, all sums are local (mapped or received) and stay readable whatever happens to
  // peers: an update that starts now can ignore aborts. Slots are in use until release() returns.
  virtual Result<Reduced> reduce(const StepHeader& mine) = 0;

  // Whether the last reduce() got so far that slot 0 may hold sums in the place of what the caller put there.
  // Until then, and in the other slots always, the caller's partial sums stay.
  virtual bool slot_0_spoilt() const = 0;

  // "I have read you": returns when every rank is done reading, so slots may be overwritten.
  // Does nothing where nobody reads this rank's memory.
  virtual Status release() = 0;

  // Headers alone: evaluation chunks, barriers.
  virtual Result<std::vector<StepHeader>> gather(const StepHeader& mine) = 0;

  // For restore and state copies. pieces[r]: the local memory for the bytes that rank r gives; it has filled
  // its own. receives[r]: whether rank r gets the others' bytes. Count, sizes and receives are the same on
  // every rank. On return all of it is filled on every rank that receives; not a byte has been written on one
  // that does not. After a failure what a receiving rank holds is worth nothing. Leaves the slots alone.
  virtual Status all_gather(RankPieces pieces, const std::vector<bool>& receives) = 0;
  // Everybody receives.
  Status all_gather(RankPieces pieces) { return all_gather(pieces, std::vector<bool>(pieces.size(), true)); }

  // Makes the current and every later call fail soon (within tens of ms), from any thread. Never blocks.
  virtual void abort() noexcept = 0;

  // The rank that the current call is waiting for right now, or -1: tells a trainer that hangs from one that
  // waits for another. Asked from any thread.
  virtual int waiting_for() const noexcept = 0;

  // Grows while bytes move, also inside one long call: tells a slow network from one that stands still. Asked
  // from any thread.
  virtual std::uint64_t activity() const noexcept = 0;

  virtual Backend backend() const = 0;
};

// The error of a call that abort() ended, as told from a peer's failure.
bool is_aborted(const Error& error);
// The rank that died, left (abort(), destructor) or broke the protocol, or -1: evidence for the coordinator.
int failed_rank(const Error& error);
// Whether that rank's data were changed on the network (found with Plan::integrity alone).
bool is_altered(const Error& error);

class Hub {
 public:
  // `floats`: the gradient arena's size. Listens on `address` (tcp), a free port of these. No address: does
  // not listen, for generations in shared memory alone.
  static Result<std::unique_ptr<Hub>> open(std::size_t floats, const std::string& address,
                                           PortRange ports = {});
  virtual ~Hub() = default;

  virtual Endpoint endpoint() const = 0;
  virtual std::size_t floats() const = 0;
  // Gradient slot i, 64-byte aligned, zero at first; allocated (memfd, its pages too) at the first call. Only
  // from the step loop.
  virtual Result<std::span<float>> slot(int i) = 0;
  virtual std::unique_ptr<Exchange> make(const Plan& plan) = 0;
};

}  // namespace rekindle::exchange
