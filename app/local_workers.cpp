#include "app/local_workers.hpp"

#include <algorithm>
#include <csignal>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

constexpr auto kFirst = std::chrono::milliseconds(100);
constexpr auto kLongest = std::chrono::seconds(60), kSteady = std::chrono::seconds(60);

// A process that meant to go says so by one of the exit codes of base/result.hpp; whatever else ends one is a
// crash.
bool deliberate(const ExitStatus& status) {
  if (status.by_signal) return false;
  switch (static_cast<ExitCode>(status.code)) {
    case ExitCode::kFinished:
    case ExitCode::kUsage:
    case ExitCode::kGaveUp:
    case ExitCode::kSaved:
    case ExitCode::kInterrupted:
    case ExitCode::kConfig:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<Process> start_control(const std::vector<std::string>& arguments) {
  static const std::string control = own_executable().parent_path() / "rekindle-control";
  REKINDLE_TRY(auto ends, Channel::pair());
  std::vector<std::string> argv{control};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  REKINDLE_TRY(Child child, spawn(argv, {}, {{ends.second.get()}}));
  return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first))};
}

Clock::duration Backoff::next(Clock::time_point started) {
  if (Clock::now() - started > kSteady) crashes_ = 0;
  return std::min<Clock::duration>(kFirst * (1 << std::min(crashes_++, 16)), kLongest);
}

Status LocalWorkers::start_all(std::uint64_t count, std::uint64_t term) {
  term_ = term;
  slots_.resize(count);
  for (std::size_t i = 0; i < slots_.size(); ++i) REKINDLE_CHECK(start_one(slots_[i], i));
  return {};
}

Status LocalWorkers::start_one(Slot& slot, std::size_t number) {
  slot.name = str("w", number, "-", random_hex(4));
  slot.started = Clock::now();
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.end(), {"--name", slot.name, "--term", str(term_)});
  REKINDLE_TRY(slot.process, start_control(arguments));
  return {};
}

void LocalWorkers::watch(std::vector<pollfd>& waits) const {
  for (const Slot& slot : slots_)
    waits.push_back({slot.process ? slot.process->child.pidfd.get() : -1, POLLIN, 0});
}

std::vector<LocalWorkers::End> LocalWorkers::reap(std::span<const pollfd> waits) {
  std::vector<End> ends;
  for (std::size_t i = 0; i < std::min(slots_.size(), waits.size()); ++i) {
    Slot& slot = slots_[i];
    if (waits[i].revents == 0 || !slot.process) continue;
    ends.push_back({slot.name, wait_for(slot.process->child)});
    slot.process.reset();
    slot.done = deliberate(ends.back().status);
    exit_code_ = ends.back().status.code;
    if (!slot.done) slot.restart_at = Clock::now() + slot.backoff.next(slot.started);
  }
  return ends;
}

void LocalWorkers::restart_due() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.process || slot.done || Clock::now() < slot.restart_at) continue;
    if (const Status started = start_one(slot, i); !started) {
      log_warning(started.error().line());
      slot.restart_at = Clock::now() + slot.backoff.next(slot.started);
    }
  }
}

bool LocalWorkers::running() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.process.has_value(); });
}

bool LocalWorkers::done() const {
  return !slots_.empty() &&
         std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.done; });
}

void LocalWorkers::dismiss() {
  for (Slot& slot : slots_) {
    slot.done = true;
    if (slot.process) slot.process->channel.reset();
  }
}

void LocalWorkers::kill_all() {
  dismiss();
  for (Slot& slot : slots_) {
    if (!slot.process) continue;
    kill_child(slot.process->child, SIGKILL);
    wait_for(slot.process->child);
    slot.process.reset();
  }
}

}  // namespace rekindle::app
