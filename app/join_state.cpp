#include "app/join_state.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>
#include <tuple>

#include "app/places.hpp"
#include "app/report.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/workers.hpp"
#include "base/duration.hpp"
#include "base/file_version.hpp"
#include "base/files.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "run/place.hpp"
#include "run/terms.hpp"
#include "slurm/environment.hpp"
#include "slurm/requeue.hpp"
#include "view/runs.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;

std::string interface_for(const run::Layout& layout, const protocol::Job& job) {
  const auto place = run::read_place(layout);
  const bool on_loopback = !place || is_loopback(place->host);
  if (job.interface.empty() ? on_loopback : choose_address(interfaces(), job.interface).has_value())
    return job.interface;
  const auto address = place ? address_towards(place->host) : Result<std::string>(job.interface);
  return address ? *address : job.interface;
}

Status check_reachable(const run::Layout& layout) {
  const std::string where = run::foreign_loopback(layout);
  if (where.empty()) return {};
  return fail(ExitCode::kConfig, str("the run listens only on the loopback address of ", where),
              "stop it, and start it again with --interface NAME");
}

tl::unexpected<Error> unreachable(const run::Layout& layout) {
  const auto place = run::read_place(layout);
  return fail(ExitCode::kSaved,
              str("the run in ", layout.root().string(),
                  " goes on, but these workers have no connection to its coordinator",
                  place ? str(" at ", place->host, ":", place->port) : ""),
              "look at the firewall between the machines, and at --interface of the run");
}

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

void await_run(const std::filesystem::path& run_dir, milliseconds patience) {
  const EndOnSignal interruptible([](int signal) {
    come_back(signal);  // in a Slurm job
    return 0;
  });
  const run::Layout layout(run_dir);
  const auto seen = look_at(layout.config());
  // A directory that this user may not use is no reason to wait; nor is a folder of runs, unless a job that
  // has not begun was submitted there.
  if (!seen || *seen || is_file(run_dir) || (!runs_inside(layout).empty() && !view::is_submitted(layout)))
    return;
  if (patience > milliseconds(0))
    say(str("no run has begun in ", run_dir.string(), is_folder(run_dir) ? "" : " (there is no such folder)",
            ": waiting for it, at most ", format_duration(patience), " (--wait)"));
  constexpr milliseconds kSeenWithin{5000};  // of a run that has just begun on another node
  std::ignore =
      await_file(layout.config(), patience > milliseconds(0) ? std::max(patience, kSeenWithin) : patience);
}

std::uint64_t newest_ended(const run::Layout& layout) {
  const auto holder = run::newest_term(layout);
  return holder && *holder && (*holder)->ended && !(*holder)->orphaned ? (*holder)->term : 0;
}

LastEnd last_end(const run::Layout& layout) {
  LastEnd last;
  // First: an attempt that begins meanwhile must not count as one whose run.toml has been seen.
  last.config = file_version(layout.config());
  const auto holder = run::newest_term(layout);
  if (!holder || !*holder) return last;
  const auto place = run::read_place(layout);
  if ((*holder)->ended)
    last.term = (*holder)->term;
  else if (place && place->term < (*holder)->term)  // the next attempt is just beginning
    last.term = place->term;
  return last;
}

Awaited await_attempt(const run::Layout& layout, const LastEnd& last, milliseconds patience, int signals) {
  constexpr milliseconds kPeriod{500};
  const auto until = Clock::now() + patience;
  std::optional<Clock::time_point> listens_since;  // the next attempt's coordinator
  while (listens_since || Clock::now() < until) {
    pollfd wait{signals, POLLIN, 0};
    signalfd_siginfo info{};
    if (::poll(&wait, 1, static_cast<int>(kPeriod.count())) > 0 &&
        ::read(signals, &info, sizeof info) == sizeof info)
      return {.signal = static_cast<int>(info.ssi_signo)};
    const auto place = run::read_place(layout);
    if (!place || place->term <= last.term) continue;
    if (!listens_since) listens_since = Clock::now();
    // A supervisor writes run.toml as soon as its coordinator listens. A coordinator of another launcher uses
    // the run.toml that is there.
    if (file_version(layout.config()) != last.config || Clock::now() - *listens_since > kNamesAreSeenWithin)
      return {.came = true};
  }
  return {};
}

InRun in_run(const nlohmann::json& status, const std::vector<std::string>& workers) {
  InRun found;
  for (const auto& trainer : status.value("trainers", nlohmann::json::array())) {
    const std::string name = trainer.value("trainer", "");
    for (const std::string& worker : workers) {
      if (!name.starts_with(worker + ".")) continue;
      found.any = true;
      found.with_rank += trainer.value("rank", -1) >= 0 ? 1 : 0;
    }
  }
  return found;
}

bool will_be_back(const run::Layout& layout, std::uint64_t ended) {
  const auto until = Clock::now() + kNamesAreSeenWithin;
  while (newest_ended(layout) <= ended && Clock::now() < until && !stop_is_asked())
    std::this_thread::sleep_for(milliseconds(100));
  const auto holder = run::newest_term(layout);
  return holder && *holder && (*holder)->term > ended && (*holder)->ended && !(*holder)->slurm_job.empty() &&
         !path_exists(layout.stop_request());
}

}  // namespace rekindle::app
