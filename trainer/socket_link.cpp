#include "trainer/socket_link.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"
#include "trainer/memory.hpp"

namespace rekindle::trainer {

using namespace protocol;

namespace {
constexpr int kBeatMs = 500;
constexpr std::uint64_t kBeatsOfWarmUp = 20, kBeatsPerSample = 20;
// One minute, counted while this process runs. The coordinator declares the worker lost long before.
constexpr int kMostBeatsUnread = 120;
}  // namespace

SocketLink::SocketLink(Fd socket, std::string trainer)
    : trainer_(std::move(trainer)),
      channel_(std::move(socket)),
      closing_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { listen(); }) {}

SocketLink::~SocketLink() {
  const std::uint64_t one = 1;
  if (::write(closing_.get(), &one, sizeof one) < 0) std::terminate();
  thread_.join();
}

void SocketLink::send(const FromTrainer& message) {
  if (auto sent = channel_.send(encode(message)); !sent) log_warning(sent.error().line());
}

std::optional<Start> SocketLink::wait() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (auto start = control_.next_start()) return start;
    if (control_.quit()) return std::nullopt;
    arrived_.wait(lock);
  }
}

void SocketLink::enter(const GenerationId& generation, exchange::Exchange& exchange) {
  const std::scoped_lock lock(mutex_);
  control_.enter(generation);
  exchange_ = &exchange;
  aborted_ = control_.aborted();
  if (aborted_) exchange.abort();
}

void SocketLink::leave() {
  const std::scoped_lock lock(mutex_);
  control_.leave();
  loop_.progress += exchange_->activity();  // reported progress never decreases
  exchange_ = nullptr;
}

std::uint32_t SocketLink::flags() {
  const std::scoped_lock lock(mutex_);
  return control_.flags();
}

void SocketLink::checkpoint_postponed() {
  const std::scoped_lock lock(mutex_);
  control_.checkpoint_postponed();
}

void SocketLink::checkpoint_begins() {
  const std::scoped_lock lock(mutex_);
  control_.checkpoint_begins();
}

void SocketLink::set_phase(TrainerPhase phase, std::uint64_t step) {
  loop_.phase = phase;
  loop_.step = step;
  ++loop_.progress;
}

void SocketLink::watch_gpu(std::unique_ptr<device::GpuWatch> watch) {
  const std::scoped_lock lock(mutex_);
  gpu_ = std::move(watch);
}

void SocketLink::on_message(const ToTrainer& message) {
  {
    const std::scoped_lock lock(mutex_);
    control_.on_message(message);
    if (exchange_ != nullptr && control_.aborted() && !aborted_.exchange(true)) exchange_->abort();
    arrived_.notify_all();
  }
  // After that, because the log may be on storage that hangs.
  if (std::holds_alternative<Stop>(message))
    log_info(
        str("the run is being stopped: this trainer is at step ", loop_.step, ", ", to_text(loop_.phase)));
}

protocol::ProcessUse SocketLink::use() {
  const std::uint64_t cpu_ms = beats_.cpu.used_ms();
  const auto now = boot_time(), passed = now - std::exchange(beats_.sent_at, now);
  constexpr std::uint64_t kAll = 100;
  const auto wall_ms = static_cast<std::uint64_t>(passed.count());
  return {.cpu_percent = wall_ms > 0 ? cpu_ms * kAll / wall_ms : 0, .memory_bytes = resident_bytes()};
}

void SocketLink::beat() {
  // Walking the page tables of several gigabytes takes tens of ms. Sample often while the peak builds up, and
  // rarely later.
  if (beats_.count < kBeatsOfWarmUp || beats_.count % kBeatsPerSample == 0) {
    beats_.peak_pss_bytes = std::max(beats_.peak_pss_bytes, pss_bytes());
  }
  ++beats_.count;
  TrainerBeat beat{trainer_, loop_.phase, {}, loop_.step, loop_.progress, -1, beats_.peak_pss_bytes};
  beat.blocks_written = loop_.blocks_written;
  beat.use = use();
  {
    const std::scoped_lock lock(mutex_);
    beat.generation = control_.generation();
    if (exchange_ != nullptr) {
      beat.waiting_for = exchange_->waiting_for();
      beat.progress += exchange_->activity();
    }
    if (gpu_) {
      const device::GpuUse use = gpu_->newest();
      beat.gpu = {use.used_bytes, use.total_bytes, use.busy_percent};
    }
  }
  exit_if_worker_hangs();
  // send() would block on a worker that reads nothing, and then this process could not exit
  if (!channel_.congested()) send(beat);
}

// The worker may be stopped forever, and the run may have ended long ago. This process must release its
// memory and its device.
void SocketLink::exit_if_worker_hangs() {
  int unread = 0;
  const bool has_read = ::ioctl(channel_.fd(), SIOCOUTQ, &unread) != 0 || unread == 0;
  beats_.unread = has_read ? 0 : beats_.unread + 1;
  if (beats_.unread < kMostBeatsUnread) return;
  log_error("the worker has read nothing for a minute: this trainer exits");
  ::_exit(static_cast<int>(ExitCode::kGaveUp));
}

void SocketLink::listen() {
  using Clock = std::chrono::steady_clock;
  auto next_beat = Clock::now();
  for (;;) {
    pollfd waits[] = {{channel_.fd(), POLLIN, 0}, {closing_.get(), POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_beat - Clock::now()).count();
    ::poll(waits, 2, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (waits[1].revents != 0) return;
    if (waits[0].revents != 0) {
      auto text = channel_.receive();
      if (!text || !*text) ::_exit(static_cast<int>(ExitCode::kGaveUp));  // the worker process has ended
      if (auto message = decode<ToTrainer>(**text)) {
        on_message(*message);
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
