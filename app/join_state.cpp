#include "app/join_state.hpp"

#include <csignal>
#include <thread>

#include "app/report.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/workers.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "run/place.hpp"
#include "run/terms.hpp"
#include "slurm/environment.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;

std::string interface_for(const run::Layout& layout, const protocol::Job& job) {
  if (choose_address(interfaces(), job.interface)) return job.interface;
  const auto place = run::read_place(layout);
  const auto address = place ? address_towards(place->host) : Result<std::string>(job.interface);
  return address ? *address : job.interface;
}

Status check_reachable(const run::Layout& layout) {
  const std::string where = run::foreign_loopback(layout);
  if (where.empty()) return {};
  return fail(ExitCode::kConfig, str("the run listens only on the loopback address of ", where),
              "stop it, and start it again with --interface NAME");
}

Error unreachable(const run::Layout& layout) {
  const auto place = run::read_place(layout);
  return {ExitCode::kSaved,
          str("the run in ", layout.root().string(),
              " goes on, but these workers have no connection to its coordinator",
              place ? str(" at ", place->host, ":", place->port) : ""),
          "look at the firewall between the machines, and at --interface of the run"};
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

std::uint64_t newest_ended(const run::Layout& layout) {
  const auto holder = run::newest_term(layout);
  return holder && *holder && (*holder)->ended && !(*holder)->orphaned ? (*holder)->term : 0;
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
