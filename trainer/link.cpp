#include "trainer/link.hpp"

#include <poll.h>
#include <sys/eventfd.h>
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

std::variant<Start, Quit> Link::wait() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return !inbox_.empty(); });
  auto message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

void Link::enter(const GenerationId& generation, exchange::Exchange& exchange) {
  const std::scoped_lock lock(mutex_);
  generation_ = generation;
  exchange_ = &exchange;
  stop_asked_ = stop_generation_ == generation;
  aborted_ = abort_generation_ >= generation;
  if (aborted_) exchange.abort();
}

void Link::leave() {
  const std::scoped_lock lock(mutex_);
  exchange_ = nullptr;
}

void Link::set_phase(const char* phase, std::uint64_t step) {
  phase_ = phase;
  step_ = step;
}

void Link::hear(const ToTrainer& message) {
  const std::scoped_lock lock(mutex_);
  if (const auto* start = std::get_if<Start>(&message)) {
    inbox_.emplace_back(*start);
  } else if (const auto* stop = std::get_if<Stop>(&message)) {
    stop_generation_ = std::max(stop_generation_, stop->generation);
    if (exchange_ != nullptr && stop->generation == generation_) stop_asked_ = true;
  } else {
    // Quit ends whatever generation is running, too.
    const bool quit = std::holds_alternative<Quit>(message);
    const GenerationId id = quit ? generation_ : std::get<Abort>(message).generation;
    abort_generation_ = std::max(abort_generation_, id);
    if (exchange_ != nullptr && id >= generation_) {
      aborted_ = true;
      exchange_->abort();
    }
    if (quit) inbox_.emplace_back(std::get<Quit>(message));
  }
  arrived_.notify_all();
}

void Link::beat() {
  // Walking the page tables of some gigabytes takes tens of ms: often while the peak builds up, then rarely.
  if (beats_ < kBeatsOfWarmUp || beats_ % kBeatsPerSample == 0) {
    peak_pss_bytes_ = std::max(peak_pss_bytes_, pss_bytes());
  }
  ++beats_;
  GenerationId generation;
  {
    const std::scoped_lock lock(mutex_);
    generation = generation_;
  }
  send(TrainerBeat{trainer_, phase_.load(), generation, step_, peak_pss_bytes_});
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
