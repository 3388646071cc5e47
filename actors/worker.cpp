#include "actors/worker.hpp"

#include <unistd.h>

#include "actors/trainer_group.hpp"
#include "actors/worker_host.hpp"
#include "base/clock.hpp"

namespace rekindle::actors {

int run_worker(const WorkerOptions& options, Fd supervisor_socket) {
  TrainerGroup trainers({options.trainer_program, options.layout.root(), options.job, options.keeper});
  protocol::WorkerConfig worker;
  worker.worker = options.name;
  worker.host = host_name();
  worker.build = options.build;
  worker.slots = static_cast<int>(options.job.trainers_per_worker);
  worker.joined = options.joined;
  worker.least_term = options.term;
  worker.alone_limit = options.alone_limit;
  worker.slowest_beat = protocol::Time(options.job.lost_after_ms / 4);
  WorkerHost host(options.layout, worker, trainers);
  const TrainerGroup::Listener listener{
      [&](const std::string& trainer, std::string message) { host.said(trainer, std::move(message)); },
      [&](const std::string& trainer, const ExitStatus& status) { host.ended(trainer, status); }};
  trainers.serve(supervisor_socket.get(), listener);
  if (options.keeper != nullptr) trainers.serve(options.keeper->supervisor_gone(), listener);
  // The supervisor is gone, or wants this worker to go.
  trainers.leave(0);
}

}  // namespace rekindle::actors
