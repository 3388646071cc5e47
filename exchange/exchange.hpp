// The data plane of one generation: sums gradients over the trainers in the fixed tree order, and copies
// state.
//
// A trainer process has one Hub, which owns the memory that peers may read. Each generation has one Exchange.
// Calls of an Exchange come from one thread, the step loop, in the same order on every rank. Only abort()
// (also repeatedly) and waiting_for() may be called from any thread at any time.
//
// After a failed call, every later call of the Exchange fails too. Peers may still be reading this rank's
// slots then, so nothing may be written to the slots until connect() of the next generation has succeeded.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/hash.hpp"
#include "base/network.hpp"
#include "base/result.hpp"
#include "exchange/tree.hpp"

namespace rekindle::exchange {

// kAuto: shared memory if all members are on one host. kNccl: of a DeviceHub.
enum class Backend { kAuto, kSharedMemory, kTcp, kNccl };

// Where peers find a trainer. The control plane carries the endpoint.
struct Endpoint {
  std::string host;      // boot id and pid namespace: if equal on two trainers, shared memory works
  std::int64_t pid = 0;  // shared memory: the control segment is /proc/PID/fd/CONTROL_FD
  int control_fd = -1;
  std::string address;  // tcp: where the trainer listens
  std::uint16_t port = 0;
  std::string nonce;  // random, also in the control segment: detects that the pid was reused
  std::string
      nccl;  // its version, a space, and what NCCL takes for this trainer's GPU; empty: it cannot be used
};

// One generation's membership. Only `rank` differs between the ranks.
struct Plan {
  std::uint64_t term = 0, generation = 0;
  int rank = 0;
  int leaves = 1;
  std::vector<Endpoint> members;  // by rank
  std::string secret;             // 32 random bytes (hex) per generation: proves a tcp peer is a member
  Backend backend = Backend::kAuto;
  bool integrity = true;  // tcp: every frame has an authentication tag
};

// 128 bits hold both large and small values in one fixed-point unit. Aligned so that a header has no padding.
__extension__ typedef __int128 Int128 __attribute__((aligned(8)));

// A sum in fixed point, so that the order of its additions does not matter, and the number of its values.
struct FixedSum {
  Int128 sum = 0;
  std::uint64_t count = 0;
};

// Totals over micro-batches. The caller decides what each sum means, and its unit.
inline constexpr std::size_t kMostSums = 16;
struct StepSums {
  std::uint32_t flags = 0;       // OR-ed
  std::uint32_t not_finite = 0;  // OR-ed; bit i: sums[i] lacks a value that is not finite
  std::array<FixedSum, kMostSums> sums;

  StepSums& operator+=(const StepSums& other);
};

// What every rank contributes to each exchange of headers; every rank reads all headers.
struct StepHeader : StepSums {
  Hash128 state_hash;  // zero: no hash in this step
  std::uint64_t compute_us = 0;
};
static_assert(sizeof(StepHeader) == 416 && std::is_trivially_copyable_v<StepHeader>);

// A range of the summed (not yet scaled) gradient. All pieces together cover the arena, in order.
struct SumPiece {
  std::size_t first = 0;
  std::span<const float> sum;
};

struct Reduced {
  std::vector<StepHeader> headers;  // by rank
  std::vector<SumPiece> pieces;     // valid until release()
};

// Indexed by rank: local memory, in pieces.
using RankPieces = std::span<const std::vector<std::span<std::byte>>>;

// Calls fail with kind kAborted (abort() ended the call), kPeerFailed (Error::rank died, left or broke the
// protocol) or kAlteredData (data of Error::rank were changed on the network; detected only with
// Plan::integrity).
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Connects to all members. Blocks until all are connected, or until abort().
  virtual Status connect() = 0;

  // Sums over all leaves. Before the call, the partial sums are in the hub's slots 0.. as leaf_ops() lists
  // them. After a successful return all sums are local (mapped or received) and stay readable even if peers
  // fail, so an update may ignore aborts from then on. Slots are in use until release() returns.
  virtual Result<Reduced> reduce(const StepHeader& mine) = 0;

  // Whether slot 0 may hold sums of the last reduce() instead of the caller's partial sum. The other slots
  // always keep the caller's partial sums.
  virtual bool slot_0_overwritten() const = 0;

  // Whether the sums of the last reduce() are still unchanged. Call after all sums have been read. If the
  // coordinator had given up this rank, a peer may not have waited for it, and may have started to overwrite
  // its slots for a later generation. If this returns false, discard every result computed from the sums.
  virtual bool sums_unchanged() const = 0;

  // Reports that this rank has read the sums. Returns when every rank has, so that slots may be overwritten.
  // Does nothing if no peer reads this rank's memory.
  virtual Status release() = 0;

  // Exchanges headers only: evaluation chunks, barriers.
  virtual Result<std::vector<StepHeader>> gather(const StepHeader& mine) = 0;

  // For restore and state copies. pieces[r] is the local memory for the bytes of rank r; each rank fills its
  // own pieces before the call. receives[r]: whether rank r gets the other ranks' bytes. Count, sizes and
  // receives are the same on every rank. A receiving rank has all pieces filled on return; a rank that does
  // not receive has no byte changed. After a failure the pieces of a receiving rank are invalid. Slots are
  // not changed.
  virtual Status all_gather(RankPieces pieces, const std::vector<bool>& receives) = 0;
  // All ranks receive.
  Status all_gather(RankPieces pieces) { return all_gather(pieces, std::vector<bool>(pieces.size(), true)); }

  // Makes the current and every later call fail soon (within tens of ms). From any thread; never blocks.
  virtual void abort() noexcept = 0;

  // The rank that the current call is waiting for now, or -1. Distinguishes a trainer that hangs from a
  // trainer that waits for another one. Called from any thread.
  virtual int waiting_for() const noexcept = 0;

  // Grows while bytes move, also within one long call. Distinguishes a slow network from a network without
  // any progress. Called from any thread.
  virtual std::uint64_t activity() const noexcept = 0;

  virtual Backend backend() const = 0;
};

class Hub {
 public:
  // `floats`: the size of the gradient arena. Listens on `address` (tcp), on a free port of `ports`. If the
  // address is empty, the hub does not listen and serves only shared-memory generations.
  static Result<std::unique_ptr<Hub>> open(std::size_t floats, const std::string& address,
                                           PortRange ports = {});
  virtual ~Hub() = default;

  virtual Endpoint endpoint() const = 0;
  virtual std::size_t floats() const = 0;
  // Gradient slot i, 64-byte aligned, zero at first. The first call allocates it (memfd, with its pages).
  // Only called from the step loop.
  virtual Result<std::span<float>> slot(int i) = 0;
  virtual std::unique_ptr<Exchange> make(const Plan& plan) = 0;
};

}  // namespace rekindle::exchange
