// rekindle-control: the coordinator and worker processes (CAF lives here and nowhere else).
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "actors/coordinator.hpp"
#include "actors/worker.hpp"
#include "app/batch_host_watch.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {
namespace {

// The job from the supervisor, or from run.toml when another launcher started this process.
Result<protocol::Job> job_of(const run::Layout& layout, const std::string& json) {
  if (json.empty()) return read_job(layout.config());
  return protocol::job_from_text(json, "--job");
}

int main(int argc, char** argv) {
  ignore_group_signals();
  CLI::App cli("Parts of a rekindle run", "rekindle");
  cli.require_subcommand(1);
  std::string run_dir, job_json, old_stop, name, successor;
  std::optional<std::string> interface, port_range;
  std::uint64_t term = 0, attempt = 0, wait_ms = 86400000, patience_ms = 30000, lost_term = 0;
  int trainers = 1;
  bool joined = false, stdio = false;
  CLI::App* coordinator = cli.add_subcommand("coordinator", "owns the membership of a run");
  coordinator->add_option("--run-dir", run_dir)->required();
  coordinator->add_option("--trainers", trainers, "how many to wait for");
  coordinator->add_option("--attempt", attempt, "go on with that attempt: its coordinator has died");
  coordinator->add_option("--patience-ms", patience_ms,
                          "how long a holder of the run on another host must be silent");
  coordinator->add_option("--lost-term", lost_term,
                          "succeed this term, whose supervisor has died, and no other");
  coordinator->add_option("--old-stop", old_stop, "the text of a stop.json that does not count");
  coordinator->add_option("--job", job_json, "the resolved job as JSON (default: run.toml)");
  CLI::App* worker = cli.add_subcommand("worker", "starts and watches this node's trainers");
  worker->add_option("--run-dir", run_dir)->required();
  worker->add_option("--name", name);
  worker->add_option("--term", term, "the least term to obey");
  worker->add_option("--interface", interface, "where its trainers listen (default: run.toml)");
  worker->add_option("--port-range", port_range);
  worker->add_flag("--joined", joined, "it helps a run that does not need it");
  worker->add_flag("--supervised-by-stdio", stdio,
                   "the end of stdin ends it; signals are told on stdout, for another node");
  worker->add_option("--successor", successor,
                     "of a Slurm job: what is needed to bring it back when it has lost its batch host");
  worker->add_option("--wait-ms", wait_ms, "how long to wait for a coordinator");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", cli.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(Error{ExitCode::kUsage, error.what(), "these parts are started by rekindle local"});
  }
  const run::Layout layout{run_dir};
  // What may pass (storage that is away, say) is no word of a worker that means to go: it is started again.
  const auto not_up = [&](const Error& error) {
    const int code = report(error);
    return worker->parsed() && error.code == ExitCode::kGaveUp ? EXIT_FAILURE : code;
  };
  auto job = job_of(layout, job_json);
  if (!job) return not_up(job.error());
  auto build = own_build();
  if (!build) return not_up(build.error());
  if (interface) job->interface = *interface;
  if (port_range) job->port_range = *port_range;
  if (stdio) report_step(), report_signals();  // before there are other threads
  allow_many_files();                          // a coordinator has one for each worker
  Fd supervisor(stdio ? STDIN_FILENO : kInheritedFd);
  if (coordinator->parsed()) {
    start_logging("coordinator", layout.log("coordinator"), LogLevel::kNone);
    return actors::run_coordinator({layout, *job, trainers, attempt, old_stop, *build, lost_term,
                                    std::chrono::milliseconds(patience_ms)},
                                   std::move(supervisor));
  }
  if (name.empty()) name = "w-" + random_hex(4);
  start_logging("worker " + name, layout.log("worker-" + name.substr(0, name.rfind('-'))), LogLevel::kNone);
  const std::string trainer = own_executable().parent_path() / "rekindle-trainer";
  actors::WorkerOptions options{layout,  *job,   name, *build,
                                trainer, joined, term, std::chrono::milliseconds(wait_ms)};
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
