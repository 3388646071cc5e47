#include "app/join.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <span>
#include <thread>

#include "app/prepare.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/workers.hpp"
#include "base/files.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/place.hpp"
#include "run/privacy.hpp"
#include "run/terms.hpp"
#include "slurm/environment.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {
namespace {

// Where this machine's trainers listen: where the run's do, if this machine has such an interface; else on
// the way to its coordinator.
std::string interface_for(const run::Layout& layout, const protocol::Job& job) {
  if (choose_address(interfaces(), job.interface)) return job.interface;
  const auto place = run::read_place(layout);
  const auto address = place ? address_towards(place->host) : Result<std::string>(job.interface);
  return address ? *address : job.interface;
}

// In a Slurm job whose time is over, or whose nodes are wanted: it helps again when there is room.
void come_back(int signal) {
  auto environment = slurm::read_environment();
  if (signal != SIGUSR1 || !environment) return;
  constexpr std::chrono::minutes kPatience{5};
  const auto facts = patiently(kPatience, [&] { return slurm::show_job(environment->job); });
  if (!facts) return;
  correct(*environment, *facts);
  const slurm::Requeued done =
      slurm::requeue_once(slurm::queue_of(*environment), environment->restarts, kPatience);
  say(done.accepted ? "requeued" : str("not requeued: ", done.detail));
}

// Until the workers have left, or a signal has come: which, or 0.
int serve(Workers& workers, const Fd& signals) {
  while (!workers.done()) {
    std::vector<pollfd> waits{{signals.get(), POLLIN, 0}};
    workers.watch(waits);
    if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) continue;
    workers.reap(std::span(waits).subspan(1));
    signalfd_siginfo info{};
    if (waits[0].revents != 0 && ::read(signals.get(), &info, sizeof info) == sizeof info)
      return static_cast<int>(info.ssi_signo);  // the run goes on without these workers
    workers.restart_due();
  }
  return 0;
}

std::uint64_t newest_ended(const run::Layout& layout) {
  const auto holder = run::newest_term(layout);
  return holder && *holder && (*holder)->ended ? (*holder)->term : 0;
}

// Whether the attempt that these workers were in has ended, and another one will follow: that of a Slurm job
// which nobody has asked to stop for good. `ended`: the newest term that had ended before.
bool will_be_back(const run::Layout& layout, std::uint64_t ended) {
  const auto until = Clock::now() + kNamesAreSeenWithin;
  while (newest_ended(layout) <= ended && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto holder = run::newest_term(layout);
  std::error_code code;
  return holder && *holder && (*holder)->term > ended && (*holder)->ended && !(*holder)->slurm_job.empty() &&
         !std::filesystem::exists(layout.stop_request(), code);
}

Result<int> join(const JoinOptions& options) {
  const run::Layout layout(options.run_dir);
  // A run that has just begun on another node.
  constexpr std::chrono::milliseconds kSeenWithin{5000};
  // In a Slurm job it may be there first.
  const auto patience = slurm::in_job() ? std::max(kSeenWithin, options.wait) : kSeenWithin;
  if (!await_file(layout.config(), patience) || !await_file(layout.private_key(), kSeenWithin)) {
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " holds no run that can be joined"),
                "start one there with rekindle local, slurm or submit");
  }
  REKINDLE_CHECK(run::check_private(layout));
  REKINDLE_TRY(const Fd signals, take_signals());
  REKINDLE_TRY(const protocol::Job job, read_job(layout.config()));
  const std::string port_range = options.port_range.empty() ? job.port_range : options.port_range;
  ThisMachine machine(options.workers);
  for (;;) {
    const std::uint64_t ended = newest_ended(layout);
    // A run that returns may be on other nodes.
    const std::string interface = options.interface.empty() ? interface_for(layout, job) : options.interface;
    REKINDLE_CHECK(check_network(interface, port_range));
    Workers workers(
        machine, {"worker", "--run-dir", options.run_dir, "--joined", "--wait-ms", str(options.wait.count()),
                  "--interface", interface, "--port-range", port_range});
    REKINDLE_CHECK(workers.start_all(0));
    const int signal = serve(workers, signals);
    workers.kill_all();
    if (signal != 0) {
      come_back(signal);
      return 0;
    }
    // The run's own end, stopped or finished, is a good end for whoever helped.
    const auto last = static_cast<ExitCode>(workers.exit_code());
    if (last == ExitCode::kConfig || last == ExitCode::kGaveUp) {
      return fail(last, "the run does not take these workers",
                  str("see ", layout.logs().string(), "/worker-w0.log"));
    }
    if (last != ExitCode::kSaved) return 0;
    if (will_be_back(layout, ended)) {
      say("the run is away: waiting for its return");
      continue;
    }
    if (newest_ended(layout) > ended) return 0;
    return fail(ExitCode::kSaved,
                str("no coordinator of ", options.run_dir.string(), " was there for --wait"),
                "nobody trains this run now: start it again and join then");
  }
}

}  // namespace

int run_join(const JoinOptions& options) {
  auto exit_code = join(options);
  if (exit_code) return *exit_code;
  return report(exit_code.error());
}

}  // namespace rekindle::app
