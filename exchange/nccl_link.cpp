#include "exchange/nccl_link.hpp"

#include <condition_variable>
#include <csignal>
#include <future>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "exchange/failure.hpp"

namespace rekindle::exchange {
namespace {

constexpr std::chrono::microseconds kPause{50};
constexpr std::chrono::seconds kAnswer{2};
constexpr std::atomic<bool> kNever{false};

// Calls `on_stuck` if it still exists after `limit`, unless it may wait: then the device is idle.
class Watchdog {
 public:
  Watchdog(const NcclLimits& limits, std::chrono::milliseconds limit, const std::atomic<bool>& may_wait)
      : thread_([this, &limits, limit, &may_wait] {
          if (over_in(limit)) return;
          if (may_wait && is_idle(limits.device_is_idle)) return;
          if (over_in({})) return;
          log_warning("NCCL's communicator could not be ended in time");
          if (limits.on_stuck)
            limits.on_stuck();
          else
            ::raise(SIGKILL);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;

 private:
  bool over_in(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return over_; });
  }
  // A call of a device that hangs may hang as well, so another thread makes it.
  static bool is_idle(const std::function<bool()>& ask) {
    if (!ask) return false;
    std::packaged_task<bool()> question(ask);
    std::future<bool> answer = question.get_future();
    std::thread(std::move(question)).detach();
    return answer.wait_for(kAnswer) == std::future_status::ready && answer.get();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

NcclLink::NcclLink(const NcclApi& api, NcclLimits limits) : api_(api), limits_(std::move(limits)) {}

NcclLink::~NcclLink() {
  abort();
  const Watchdog watchdog(limits_, limits_.end_of_others, kNever);
  ender_.join();
  const std::lock_guard lock(mutex_);
  if (state_ == State::kRevoked) abort_handle();  // the peers have paused by now
}

Status NcclLink::failed(NcclCode code) {
  const char* const words = api_.last_error(handle_);
  return forward_error(Error{ExitCode::kGaveUp,
                             str("NCCL: error ", static_cast<int>(code),
                                 words != nullptr && *words != 0 ? ": " : "", words != nullptr ? words : ""),
                             "NCCL_DEBUG=WARN says more", ErrorKind::kPeerFailed});
}

std::unique_lock<std::mutex> NcclLink::lock_until_aborted() {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!aborted_ && !lock.try_lock()) std::this_thread::sleep_for(kPause);
  return lock;
}

Status NcclLink::connect(const NcclId& id, int ranks, int rank) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return forward_error(aborted_error());
    NcclConfig config;
    state_ = State::kConnecting;
    const NcclCode code = api_.init_rank(&handle_, ranks, id, rank, &config);
    if (code != NcclCode::kSuccess && code != NcclCode::kInProgress) return failed(code);
  }
  REKINDLE_CHECK(settle());
  const auto lock = lock_until_aborted();
  if (aborted_) return forward_error(aborted_error());
  state_ = State::kReady;
  return {};
}

Status NcclLink::group(const std::function<NcclCode(NcclHandle)>& calls) {
  {
    const auto lock = lock_until_aborted();
    if (aborted_ || state_ != State::kReady) return forward_error(aborted_error());
    const NcclCode started = api_.group_start();
    const NcclCode called = started == NcclCode::kSuccess ? calls(handle_) : started;
    const NcclCode taken = api_.group_end();
    for (const NcclCode code : {called, taken})
      if (code != NcclCode::kSuccess && code != NcclCode::kInProgress) return failed(code);
  }
  return settle();
}

Status NcclLink::check() {
  REKINDLE_TRY(const NcclCode code, state_now());
  std::ignore = code;
  return {};
}

Result<NcclCode> NcclLink::state_now() {
  const auto lock = lock_until_aborted();
  if (aborted_ || handle_ == nullptr) return forward_error(aborted_error());
  NcclCode now = NcclCode::kSuccess;
  const NcclCode asked = api_.async_error(handle_, &now);
  if (aborted_) return forward_error(aborted_error());
  if (asked != NcclCode::kSuccess) return forward_error(failed(asked).error());
  if (now != NcclCode::kSuccess && now != NcclCode::kInProgress) return forward_error(failed(now).error());
  return now;
}

Status NcclLink::settle() {
  for (;;) {
    REKINDLE_TRY(const NcclCode code, state_now());
    if (code == NcclCode::kSuccess) return {};
    std::this_thread::sleep_for(kPause);
  }
}

void NcclLink::abort() noexcept {
  aborted_ = true;
  std::call_once(ending_, [this] {
    ender_ = std::thread([this] {
      end();
      ended_ = true;
    });
  });
}

void NcclLink::abort_handle() {
  if (limits_.use_device) limits_.use_device();
  const NcclCode code = api_.abort(std::exchange(handle_, nullptr));
  if (code != NcclCode::kSuccess && code != NcclCode::kInProgress)
    log_warning(str("NCCL: a communicator could not be ended (error ", static_cast<int>(code), ")"));
  state_ = State::kEnded;
}

std::optional<NcclCode> NcclLink::settled_by(std::chrono::steady_clock::time_point until) {
  for (;;) {
    NcclCode now = NcclCode::kSuccess;
    if (api_.async_error(handle_, &now) != NcclCode::kSuccess) return std::nullopt;
    if (now != NcclCode::kInProgress || std::chrono::steady_clock::now() >= until) return now;
    std::this_thread::sleep_for(kPause);  // NCCL has no call that waits
  }
}

// Returns when no kernel of the communicator waits any more. `before`: NCCL's state, which an error keeps.
bool NcclLink::revoke(NcclCode before) {
  if (limits_.use_device) limits_.use_device();
  constexpr int kNoFlags = 0;
  const NcclCode asked = api_.revoke(handle_, kNoFlags);
  if (asked != NcclCode::kSuccess && asked != NcclCode::kInProgress) return false;
  const auto now = settled_by(std::chrono::steady_clock::time_point::max());
  return now == NcclCode::kSuccess || now == before;
}

void NcclLink::end() {
  std::atomic<bool> ends{false};
  const Watchdog watchdog(limits_, limits_.end, ends);
  const std::lock_guard lock(mutex_);
  ends = true;
  if (handle_ == nullptr) return;
  if (state_ != State::kReady || api_.revoke == nullptr) return abort_handle();
  // A group that is still being taken would lose its job by a Revoke; where its peers are gone, that never
  // ends.
  const auto before = settled_by(std::chrono::steady_clock::now() + limits_.end / 5);
  // Without a revoke that has worked, kernels may go on, and the next wait for the device would never end.
  if (!before || *before == NcclCode::kInProgress || !revoke(*before)) return abort_handle();
  state_ = State::kRevoked;
}

}  // namespace rekindle::exchange
