#include "app/workers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/backoff.hpp"
#include "base/log.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

constexpr auto kFirst = std::chrono::milliseconds(100);
constexpr auto kLongest = std::chrono::seconds(60), kSteady = std::chrono::seconds(60);

// A process that ends deliberately uses one of the exit codes of base/result.hpp; any other end is a crash.
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
  REKINDLE_TRY(auto ends, Channel::pair());
  REKINDLE_TRY(Child child, start_program("rekindle-control", arguments, {{ends.second.get()}}));
  return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first)), Fd()};
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the result owns the channel

namespace {

// A runtime of containers passes the standard streams on, and no other descriptor. Ctrl-C is for the
// supervisor alone, so the runtime is in a session of its own.
Result<Process> start_contained(const Contained& how, const std::vector<std::string>& arguments) {
  if (how.program.empty())
    return fail(ExitCode::kConfig, "--container-runtime srun is for the nodes of a job (rekindle slurm)");
  std::vector<std::string> argv = without_missing_mounts(how.program);
  argv.push_back(program_path("rekindle-control"));
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  argv.emplace_back("--supervised-by-stdin");
  REKINDLE_TRY(auto ends, Channel::pair());
  REKINDLE_TRY(Child child, spawn(argv, {}, {}, {ends.second.get(), -1, -1, true}));
  return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first)), Fd(), true};
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the result owns the channel

}  // namespace

std::vector<std::string> worker_of(const run::Layout& layout) {
  std::vector<std::string> arguments = layout.options();
  arguments.insert(arguments.begin(), "worker");
  return arguments;
}

std::string ThisMachine::name(std::size_t machine) const { return str("w", machine); }

Result<Process> ThisMachine::start(std::size_t machine, const std::vector<std::string>& arguments) {
  std::vector<std::string> numbered = arguments;
  numbered.insert(numbered.end(), {"--number", str(machine)});
  return how_.is_any() ? start_contained(how_, numbered) : start_control(numbered);
}

Clock::duration Backoff::next(Clock::time_point started) {
  if (Clock::now() - started > kSteady) crashes_ = 0;
  return backoff<Clock::duration>(kFirst, kLongest, crashes_++);
}

Status Workers::start_all(std::uint64_t term) {
  term_ = term;
  slots_.resize(machines_.count());
  for (std::size_t i = 0; i < slots_.size(); ++i) REKINDLE_CHECK(start_one(i));
  return {};
}

Status Workers::start_one(std::size_t machine) {
  Slot& slot = slots_[machine];
  slot.name = str(machines_.name(machine), "-", random_hex(4));
  slot.started = Clock::now();
  slot.lines = {};
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.end(), {"--name", slot.name, "--term", str(term_)});
  REKINDLE_TRY(slot.process, machines_.start(machine, arguments));
  return {};
}

void Workers::watch(std::vector<pollfd>& waits) const {
  for (const Slot& slot : slots_) {
    waits.push_back({slot.process ? slot.process->child.pidfd.get() : -1, POLLIN, 0});
    waits.push_back({slot.process ? slot.process->output.get() : -1, POLLIN, 0});
  }
}

std::vector<Workers::End> Workers::reap(std::span<const pollfd> waits) {
  std::vector<End> ends;
  for (std::size_t i = 0; i < std::min(slots_.size(), waits.size() / 2); ++i) {
    Slot& slot = slots_[i];
    if (waits[2 * i].revents == 0 || !slot.process) continue;
    ends.push_back({slot.name, wait_for(slot.process->child)});
    slot.process.reset();
    slot.done = deliberate(ends.back().status);
    exit_code_ = ends.back().status.code;
    const Clock::duration pause = machines_.on_end(i, ends.back().status);
    if (!slot.done) slot.restart_at = Clock::now() + std::max(pause, slot.backoff.next(slot.started));
  }
  if (::getpid() == 1) reap_orphans();
  return ends;
}

std::vector<std::string> Workers::read(std::span<const pollfd> waits) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(slots_.size(), waits.size() / 2); ++i) {
    Slot& slot = slots_[i];
    if (waits[2 * i + 1].revents == 0 || !slot.process || !slot.process->output) continue;
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(slot.process->output.get(), bytes.data(), bytes.size());
    if (count <= 0) {
      slot.process->output.reset();
      if (std::string rest = slot.lines.rest(); !rest.empty()) lines.push_back(std::move(rest));
      continue;
    }
    for (std::string& line : slot.lines.take({bytes.data(), static_cast<std::size_t>(count)})) {
      if (!machines_.take_line(i, *slot.process, line)) lines.push_back(std::move(line));
    }
  }
  return lines;
}

void Workers::restart_due() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.process || slot.done || Clock::now() < slot.restart_at || machines_.gone(i)) continue;
    if (const Status started = start_one(i); !started) {
      log_warning(started.error().line());
      slot.restart_at = Clock::now() + slot.backoff.next(slot.started);
    }
  }
}

std::vector<std::string> Workers::names() const {
  std::vector<std::string> names;
  for (const Slot& slot : slots_) names.push_back(slot.name);
  return names;
}

bool Workers::running() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.process.has_value(); });
}

bool Workers::done() const {
  return !slots_.empty() &&
         std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.done; });
}

void Workers::dismiss() {
  for (Slot& slot : slots_) {
    slot.done = true;
    if (slot.process) slot.process->channel.reset();
  }
}

void Workers::kill_all() {
  dismiss();
  for (Slot& slot : slots_) {
    if (!slot.process) continue;
    kill_child(slot.process->child, SIGKILL);
    if (slot.process->leads_group)
      ::kill(-slot.process->child.pid, SIGKILL);  // not reaped, so the group is its
    wait_for(slot.process->child);
    slot.process.reset();
  }
}

}  // namespace rekindle::app
