// NCCL's communicator of one generation: made, used and ended by NCCL's rules for non-blocking communicators.
//
// - One thread at a time is inside NCCL (the mutex).
// - After a group, nothing may go on its stream before NCCL has taken the group: group() returns then.
// - An abort ends what is in flight by ncclCommRevoke, once, and only if the communicator was ready. Before
//   that, or with a library that has no Revoke, by ncclCommAbort. Both wait in their caller, so a thread of
//   this object calls them.
// - ncclCommAbort also frees the communicator. ncclCommDestroy, which waits for the peers, is never called.
// - Ending, the wait for the mutex included, has a limit. After that this process ends itself: another
//   trainer is started, and nobody is held up by a communicator that cannot be ended.
// - The limit counts only while the device is not idle, or a call of NCCL does not return. NCCL's own thread
//   (its proxy, where NCCL has no shared memory for it) ends when every other process of this machine has
//   closed its connections to it: one that dies takes seconds for its memory, and one that has all it wants
//   may be busy for long. This is waited for without a limit, but not by the step loop, and not at the end of
//   the process.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.hpp"
#include "exchange/nccl_api.hpp"

namespace rekindle::exchange {

struct NcclLimits {
  // Until the device is idle; and at the end of the process, until other processes have let go.
  std::chrono::milliseconds end{5000}, end_of_others{60000};
  std::function<void()> on_stuck = {};  // empty: SIGKILL to this process
  // Makes the GPU the current one of the calling thread. A new thread's is GPU 0, where the calls of NCCL
  // would make a context. Empty: nothing to do.
  std::function<void()> use_device = {};
  // Whether the device has done all that this process has given it. Called after `end`. Empty: it has not.
  std::function<bool()> device_is_idle = {};
  // What a rank sends at most in one group: a group that is over is progress, and must not take the time
  // after which the coordinator takes a link for broken. 2 s with 1 Gbit/s.
  std::size_t piece_bytes = std::size_t{256} << 20;
};

class NcclLink {
 public:
  NcclLink(const NcclApi& api, NcclLimits limits);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Call once. Blocks until all ranks are connected. Errors: kAborted; kPeerFailed without a rank: NCCL gives
  // none.
  Status connect(const NcclId& id, int ranks, int rank);
  // Makes the calls of one group. Returns when NCCL has taken them, so that kernels may follow on the stream;
  // after an abort at once, with an error.
  Status group(const std::function<NcclCode(NcclHandle)>& calls);
  // An error that NCCL has found since.
  Status check();

  // Ends what is in flight, and every later call. From any thread; never blocks.
  void abort() noexcept;
  bool aborted() const noexcept { return aborted_; }
  // Whether all that abort() has begun is over: nothing uses the exchange's memory any more, and the
  // destructor returns at once.
  bool ended() const noexcept { return ended_; }

 private:
  enum class State { kNone, kConnecting, kReady, kRevoked, kEnded };

  // Of the step loop. The thread that ends the communicator keeps the mutex for as long as NCCL takes, so
  // after an abort the step loop does not wait for it. The lock is held unless `aborted_` is set.
  std::unique_lock<std::mutex> lock_until_aborted();
  Result<NcclCode> state_now();  // kSuccess or kInProgress
  Status settle();               // waits until NCCL's state is kSuccess
  Status failed(NcclCode code);
  void end();  // in the thread of abort()
  // Under the mutex. NCCL's state, as soon as it is not kInProgress, or at `until`; nullopt: NCCL refuses to
  // tell.
  std::optional<NcclCode> settled_by(std::chrono::steady_clock::time_point until);
  bool revoke(NcclCode before);  // under the mutex; false: NCCL refuses
  void abort_handle();           // under the mutex

  const NcclApi& api_;
  const NcclLimits limits_;
  std::mutex mutex_;  // of handle_ and state_, and around every call of NCCL
  NcclHandle handle_ = nullptr;
  State state_ = State::kNone;
  std::atomic<bool> aborted_{false};
  std::once_flag ending_;
  std::atomic<bool> ended_{false};  // end() has returned
  std::thread ender_;
};

}  // namespace rekindle::exchange
