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
#include "base/programs.hpp"
#include "base/text.hpp"

namespace rekindle::actors {

namespace {

// Why no trainer can be started on this node. The check runs before the first start, because the loader's
// messages do not name the node. If the check itself fails, the trainers are started anyway.
std::optional<Error> cannot_start_trainers(const protocol::Job& job) {
  if (is_script(job)) {
    if (path_exists(program_on_path(job.task.python))) return std::nullopt;
    return Error{ExitCode::kConfig, str("there is no ", job.task.python, " on ", host_name()),
                 "the run's Python has to be there on every node"};
  }
  const std::filesystem::path program = program_path(kTrainerProgram);
  const auto libraries = libraries_of(program, kProgramsFd);
  if (libraries) return std::nullopt;
  if (libraries.error().code != ExitCode::kConfig) {
    log_warning(str("the libraries of ", program.string(), " were not checked: ", libraries.error().line()));
    return std::nullopt;
  }
  Error error = libraries.error();
  error.hint = "is the folder with LibTorch there on that node?";
  return error;
}

}  // namespace

int run_worker(const WorkerOptions& options, Fd supervisor_socket) {
  std::optional<Error> refusal = options.refusal ? options.refusal : cannot_start_trainers(options.job);
  if (refusal && options.joined) {  // the run does not need this worker, so it leaves
    log_error(refusal->line());
    std::fprintf(stderr, "rekindle: %s\n", printable(refusal->line()).c_str());
    return static_cast<int>(refusal->code);
  }
  TrainerGroup trainers({options.layout, options.job, options.number, options.keeper, std::move(refusal)});
  protocol::WorkerConfig worker;
  worker.worker = options.name;
  worker.host = host_name();
  worker.build = options.build;
  worker.slots = static_cast<int>(options.job.trainers_per_worker);
  worker.joined = options.joined;
  worker.directory_inode = options.layout.root().root_inode();
  worker.least_term = options.term;
  worker.alone_limit = options.alone_limit;
  // Long preparations lengthen the gather time, too (app/options.cpp).
  worker.warm_up_limit = std::max(worker.warm_up_limit, protocol::Time(options.job.gather_time_ms));
  worker.slowest_beat = protocol::Time(options.job.lost_after_ms / 4);
  WorkerHost host(options.layout, worker, trainers);
  const TrainerGroup::Listener listener{
      [&](const std::string& trainer, std::string message) { host.on_message(trainer, std::move(message)); },
      [&](const std::string& trainer, const ExitStatus& status) { host.on_end(trainer, status); }};
  trainers.serve(supervisor_socket.get(), listener);
  if (options.keeper != nullptr) trainers.serve(options.keeper->supervisor_gone(), listener);
  // The supervisor is gone, or has told this worker to leave.
  trainers.leave(0);
}

}  // namespace rekindle::actors
