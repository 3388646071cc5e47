#include "trainer/link.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "protocol/wire.hpp"
#include "trainer/memory.hpp"

namespace rekindle::trainer {

using namespace protocol;

namespace {
constexpr int kBeatMs = 500;
constexpr std::uint64_t kBeatsOfWarmUp = 20, kBeatsPerSample = 20;
// A minute of this process' own time. A worker is lost to the others long before.
constexpr int kMostBeatsUnread = 120;
}  // namespace

Link::Link(Fd socket, std::string trainer)
    : trainer_(std::move(trainer)),
      channel_(std::move(socket)),
      closing_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { listen(); }) {}

Link::~Link() {
  const std::uint64_t one = 1;
  if (::write(closing_.get(), &one, sizeof one) < 0) std::terminate();
  thread_.join();
}

void Link::send(const FromTrainer& message) {
  if (auto sent = channel_.send(encode(message)); !sent) log_warning(sent.error().line());
}

std::optional<Start> Link::wait() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (auto start = control_.next_start()) return start;
    if (control_.quit()) return std::nullopt;
    arrived_.wait(lock);
  }
}

void Link::enter(const GenerationId& generation, exchange::Exchange& exchange) {
  const std::scoped_lock lock(mutex_);
  control_.enter(generation);
  exchange_ = &exchange;
  aborted_ = control_.aborted();
  if (aborted_) exchange.abort();
}

void Link::leave() {
  const std::scoped_lock lock(mutex_);
  control_.leave();
  progress_ += exchange_->activity();  // what is told never falls
  exchange_ = nullptr;
}

std::uint32_t Link::flags() {
  const std::scoped_lock lock(mutex_);
  return control_.flags();
}

void Link::checkpoint_postponed() {
  const std::scoped_lock lock(mutex_);
  control_.checkpoint_postponed();
}

void Link::checkpoint_begins() {
  const std::scoped_lock lock(mutex_);
  control_.checkpoint_begins();
}

void Link::set_phase(TrainerPhase phase, std::uint64_t step) {
  phase_ = phase;
  step_ = step;
  ++progress_;
}

void Link::hear(const ToTrainer& message) {
  const std::scoped_lock lock(mutex_);
  control_.hear(message);
  if (exchange_ != nullptr && control_.aborted() && !aborted_.exchange(true)) exchange_->abort();
  arrived_.notify_all();
}

void Link::beat() {
  // Walking the page tables of some gigabytes takes tens of ms: often while the peak builds up, then rarely.
  if (beats_ < kBeatsOfWarmUp || beats_ % kBeatsPerSample == 0) {
    peak_pss_bytes_ = std::max(peak_pss_bytes_, pss_bytes());
  }
  ++beats_;
  TrainerBeat beat{trainer_, phase_, {}, step_, progress_, -1, peak_pss_bytes_};
  {
    const std::scoped_lock lock(mutex_);
    beat.generation = control_.generation();
    if (exchange_ != nullptr) {
      beat.waiting_for = exchange_->waiting_for();
      beat.progress += exchange_->activity();
    }
  }
  leave_if_nobody_reads();
  if (!channel_.congested()) send(beat);  // waiting for a worker that reads nothing, it could not leave
}

// A worker that was stopped for good, and its run may be long over: what this process holds is wanted
// elsewhere.
void Link::leave_if_nobody_reads() {
  int unread = 0;
  const bool has_read = ::ioctl(channel_.fd(), SIOCOUTQ, &unread) != 0 || unread == 0;
  beats_unread_ = has_read ? 0 : beats_unread_ + 1;
  if (beats_unread_ < kMostBeatsUnread) return;
  log_error("the worker has stood still for a minute: this trainer leaves");
  ::_exit(static_cast<int>(ExitCode::kGaveUp));
}

void Link::listen() {
  using Clock = std::chrono::steady_clock;
  auto next_beat = Clock::now();
  for (;;) {
    pollfd waits[] = {{channel_.fd(), POLLIN, 0}, {closing_.get(), POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_beat - Clock::now()).count();
    ::poll(waits, 2, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (waits[1].revents != 0) return;
    if (waits[0].revents != 0) {
      auto text = channel_.receive();
      if (!text || !*text)
        ::_exit(static_cast<int>(ExitCode::kGaveUp));  // the worker is gone: nobody to train for
      if (auto message = decode<ToTrainer>(**text)) {
        hear(*message);
      } else {
        log_error(message.error().line());
      }
    }
    if (Clock::now() >= next_beat) {
      beat();
      next_beat = Clock::now() + std::chrono::milliseconds(kBeatMs);
    }
  }
}

}  // namespace rekindle::trainer
