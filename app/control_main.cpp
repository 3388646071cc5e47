// rekindle-control: the coordinator and worker processes (the only program with CAF).
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <system_error>

#include "actors/coordinator.hpp"
#include "actors/worker.hpp"
#include "app/batch_host_watch.hpp"
#include "app/cpu.hpp"
#include "app/enclose.hpp"
#include "app/part_options.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {
namespace {

// The job from the supervisor, or from run.toml when another launcher started this process.
Result<protocol::Job> job_of(const run::Layout& layout, const std::string& json) {
  if (json.empty()) return read_job(layout.config());
  return protocol::job_from_text(json, "--job");
}

// Ends the process if no thread can be made. That is no crash, so the supervisor starts a new process later,
// and does not count. A catch in main() would unwind the stack, where the actors' system waits for its
// actors. Other exceptions are bugs: SIGABRT.
template <int kExitCode>
[[noreturn]] void end_without_thread() {
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
  } catch (const std::system_error& refused) {
    if (refused.code() != std::errc::resource_unavailable_try_again) __gnu_cxx::__verbose_terminate_handler();
    const Error error{ExitCode::kGaveUp, str("the system makes no thread: ", refused.what()),
                      "is a limit of processes reached (ulimit -u, pids.max)?"};
    log_error(error.line());
    report(error);
    ::_exit(kExitCode);
  } catch (...) {
    __gnu_cxx::__verbose_terminate_handler();
  }
  std::abort();
}

int main(int argc, char** argv) {
  ignore_group_signals();
  if (const Status held = hold_programs(); !held) return report(held.error());
  if (argc > 1 && std::string_view(argv[1]) == kEnclose) return enclose(argc, argv);
  CLI::App cli("Parts of a rekindle run", "rekindle");
  cli.require_subcommand(1);
  PartOptions part;
  std::string job_json, old_stop, time_limit, name, successor;
  std::uint64_t term = 0, attempt = 0, wait_ms = 86400000, patience_ms = 30000, lost_term = 0;
  int trainers = 1, number = 0;
  bool joined = false, stdio = false, by_stdin = false;
  CLI::App* coordinator = cli.add_subcommand("coordinator", "owns the membership of a run");
  CLI::App* worker = cli.add_subcommand("worker", "starts and watches this node's trainers");
  for (CLI::App* each : {coordinator, worker}) part.add_directory(*each);
  part.add_network(*worker);
  coordinator->add_option("--trainers", trainers, "how many to wait for");
  coordinator->add_option("--attempt", attempt, "continue that attempt, whose coordinator has died");
  coordinator->add_option("--patience-ms", patience_ms,
                          "how long a holder of the run on another host must be silent");
  coordinator->add_option("--lost-term", lost_term,
                          "take over from this term only, whose supervisor has died");
  coordinator->add_option("--old-stop", old_stop, "the text of a stop.json to ignore");
  coordinator->add_option("--time-limit", time_limit, "when the Slurm job's time is over, for the records");
  coordinator->add_option("--job", job_json, "the resolved job as JSON (default: run.toml)");
  worker->add_option("--name", name);
  worker->add_option("--term", term, "ignore coordinators of lower terms");
  worker->add_option("--number", number, "among the workers that this machine started together");
  worker->add_flag("--joined", joined, "added by rekindle join: the run does not need this worker");
  worker->add_flag("--supervised-by-stdio", stdio,
                   "for a worker on another node: exit at the end of stdin, and print signals to stdout");
  worker->add_flag("--supervised-by-stdin", by_stdin,
                   "for a worker in a container: exit at the end of stdin");
  worker->add_option("--successor", successor,
                     "of a Slurm job: the data that a successor needs if the batch host is lost");
  worker->add_option("--wait-ms", wait_ms, "how long to wait for a coordinator");
  if (const auto code = parse_part(cli, argc, argv, "these parts are started by rekindle local"))
    return *code;
  // The first coordinator of an attempt crashes: its exit would end the start, a few crashes do not.
  if (worker->parsed())
    std::set_terminate(end_without_thread<EXIT_FAILURE>);
  else if (attempt > 0)
    std::set_terminate(end_without_thread<static_cast<int>(ExitCode::kGaveUp)>);
  const run::Layout layout = part.layout();
  const auto not_up = [&](const Error& error) {
    return worker->parsed() ? worker_not_up(error) : report(error);
  };
  auto job = job_of(layout, job_json);
  if (!job) return not_up(job.error());
  auto build = own_build();
  if (!build) return not_up(build.error());
  part.apply_to(*job);
  if (stdio) report_step(), report_signals();  // must run before other threads exist
  allow_many_files();                          // a coordinator has one file descriptor per worker
  Fd supervisor(stdio || by_stdin ? STDIN_FILENO : kInheritedFd);
  if (coordinator->parsed()) {
    start_logging("coordinator", layout.log("coordinator"), LogLevel::kNone);
    return actors::run_coordinator({layout, *job, trainers, attempt, old_stop, time_limit, *build, lost_term,
                                    std::chrono::milliseconds(patience_ms)},
                                   std::move(supervisor));
  }
  if (name.empty()) name = "w-" + random_hex(4);
  start_logging("worker " + name, layout.log("worker-" + name.substr(0, name.rfind('-'))), LogLevel::kNone);
  actors::WorkerOptions options{layout, *job, name, *build, joined, term, std::chrono::milliseconds(wait_ms),
                                number};
  // The libraries are told to use the instructions of the run's first CPU, and do not look at this one.
  if (const Status able = check_capability(host_name(), cpu_capability(), job->cpu_capability); !able)
    options.refusal = able.error();
  if (!successor.empty()) {
    auto watch = BatchHostWatch::start(layout, successor);
    if (!watch) return report(watch.error());
    options.keeper = *watch;
  }
  return actors::run_worker(options, std::move(supervisor));
}

}  // namespace
}  // namespace rekindle::app

int main(int argc, char** argv) { return rekindle::app::main(argc, argv); }
