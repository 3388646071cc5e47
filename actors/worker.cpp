#include "actors/worker.hpp"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "actors/trainer_group.hpp"
#include "actors/worker_host.hpp"
#include "base/clock.hpp"
#include "base/libraries.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"

namespace rekindle::actors {

namespace {

// Why no trainer can be started on this node; found out before one is, for the loader's own words name no
// node. What cannot be found out is left to the trainers.
std::optional<Error> cannot_load(const std::string& program) {
  const auto libraries = libraries_of(program);
  if (libraries) return std::nullopt;
  if (libraries.error().code != ExitCode::kConfig) {
    log_warning(str("the libraries of ", program, " were not looked for: ", libraries.error().line()));
    return std::nullopt;
  }
  Error error = libraries.error();
  error.hint = "is the folder with LibTorch there on that node?";
  return error;
}

}  // namespace

int run_worker(const WorkerOptions& options, Fd supervisor_socket) {
  std::optional<Error> refusal = cannot_load(options.trainer_program);
  if (refusal && options.joined) {  // nothing waits for it: it goes
    log_error(refusal->line());
    std::fprintf(stderr, "rekindle: %s\n", printable(refusal->line()).c_str());
    return static_cast<int>(refusal->code);
  }
  TrainerGroup trainers({options.trainer_program, options.layout.root().string(), options.job, options.keeper,
                         std::move(refusal)});
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
