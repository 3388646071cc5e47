#include "slurm/job_watch.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/command.hpp"
#include "base/log.hpp"

namespace rekindle::slurm {

namespace {
// A job's facts change: administrators extend jobs, and nodes are lost.
constexpr std::chrono::minutes kNowAndThen{5};
// After a query without an answer, and each time twice as long: every job of a cluster asks its controller.
constexpr std::chrono::milliseconds kAgain{1000}, kSeldom{30000};

// Whether this host is being shut down. Then every process gets SIGTERM, and Slurm knows nothing of it yet.
// Source: systemctl(1), is-system-running.
bool host_stops() {
  constexpr std::chrono::seconds kPatience{5};
  const auto said = run_command({"systemctl", "is-system-running"}, kPatience);
  return said && said->out.starts_with("stopping");
}
}  // namespace

struct JobWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t asked = 0, answered = 0;
  bool closing = false;
  std::optional<Look> latest;
  Fd news{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  // Waits for the next query, for `pause` at most, and returns its number. nullopt: the watch is closing.
  std::optional<std::uint64_t> next_question(std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, pause, [this] { return closing || asked > answered; });
    answered = asked;
    return closing ? std::nullopt : std::optional(asked);
  }

  // Returns whether Slurm answered.
  bool answer(std::uint64_t number, const std::string& id) {
    auto facts = show_job(id);
    if (!facts) {
      log_warning(facts.error().line());
      return false;
    }
    Look look{number, std::chrono::steady_clock::now(), std::move(*facts), {}, host_stops()};
    if (const auto nodes = expand_nodes(look.facts.node_list)) look.nodes = {nodes->begin(), nodes->end()};
    const std::scoped_lock lock(mutex);
    latest = std::move(look);
    const std::uint64_t one = 1;
    if (::write(news.get(), &one, sizeof one) != sizeof one)
      log_warning("eventfd: Slurm's answer will be noticed late");
    return true;
  }
};

JobWatch::JobWatch(const Environment& environment) : shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_, id = environment.id()] {
    auto again = kAgain;
    bool answered = shared->answer(0, id);
    std::uint64_t last = 0;
    while (const auto number = shared->next_question(answered ? kNowAndThen : again)) {
      const bool is_new = *number != std::exchange(last, *number);
      again = answered || is_new ? kAgain : std::min(2 * again, kSeldom);
      answered = shared->answer(*number, id);
    }
  }).detach();
}

JobWatch::~JobWatch() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->closing = true;
  shared_->changed.notify_all();
}

std::uint64_t JobWatch::look() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->changed.notify_all();
  return ++shared_->asked;
}

std::optional<Look> JobWatch::latest() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->latest;
}

int JobWatch::fd() const { return shared_->news.get(); }

void JobWatch::on_read() {
  std::uint64_t count = 0;
  if (::read(shared_->news.get(), &count, sizeof count) < 0) return;
}

}  // namespace rekindle::slurm
