#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "app/banner.hpp"
#include "app/command.hpp"
#include "app/join.hpp"
#include "app/kept_program.hpp"
#include "app/options.hpp"
#include "app/prepare.hpp"
#include "app/ranges.hpp"
#include "app/report.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/slurm_site.hpp"
#include "app/submit.hpp"
#include "app/supervisor.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/trust.hpp"

namespace rekindle::app {
namespace {

int local(JobOptions& job_options) {
  std::optional<EndOnSignal> interruptible(std::in_place);
  auto options = job_options.resolve();
  if (!options) return report(options.error());
  auto initial = prepare(*options);
  if (!initial) return report(initial.error());
  if (const std::string line = completed_line(*options); !line.empty()) {
    say(line);
    return 0;
  }
  interruptible.reset();  // from here on a signal stops the run
  start_logging("rekindle", options->layout().log("supervisor"), LogLevel::kInfo);
  say_lines(banner(*options, options->workers));
  for (const std::string& line : crowding(*options, std::thread::hardware_concurrency())) say(line);
  return run_local(*options, std::move(*initial));
}

// If the run has kept other programs than these, the kept programs continue the run, so that a rebuild does
// not change it.
std::optional<int> go_on_as_kept(const std::filesystem::path& run_dir,
                                 const std::vector<std::string>& arguments) {
  const run::Layout layout(run_dir);
  if (const Status trusted = run::check_trusted(layout); !trusted) return report(trusted.error());
  const FilePath program = layout.programs() / "rekindle";
  if (!path_exists(program) || is_programs_folder(layout.programs())) return std::nullopt;
  const auto folder = open_file(layout.programs(), O_RDONLY | O_DIRECTORY);
  if (!folder) return report(folder.error());
  return report(become_program_in(*folder, program, arguments));
}

int slurm(JobOptions& job_options, const SlurmOptions& how, const std::vector<std::string>& arguments) {
  auto options = job_options.resolve();
  if (!options) return report(options.error());
  if (options->workers != 1)
    return report(Error{ExitCode::kUsage, "--workers is for rekindle local: a job has one worker a node",
                        "see --trainers-per-worker"});
  options->job.launched_by = "slurm";
  if (const auto done = go_on_as_kept(options->run_dir, arguments)) return *done;
  auto job = this_job(how);
  if (!job) return report(job.error());
  const auto end_early = [begun = *job, wanted = *options](int signal) {
    return end_slurm_early(begun, wanted, signal);
  };
  std::optional<EndOnSignal> interruptible(end_early);
  if (const auto completed = complete_job(*job, *options); !completed)
    return fail_slurm(*job, *options, completed.error());
  // Write nothing to the run directory before this check, not even the count of attempts.
  if (!how.from_scratch) {
    if (const Status there = check_run_is_there(*job, options->run_dir); !there) return report(there.error());
  }
  auto initial = prepare(*options);
  if (!initial) return fail_slurm(*job, *options, initial.error());
  if (const auto kept = keep_program(options->layout()); !kept)
    return fail_slurm(*job, *options, kept.error());
  interruptible.reset();  // end the signal thread before this process may become another program
  if (const auto done = go_on_as_kept(options->run_dir, arguments)) return *done;
  interruptible.emplace(end_early);
  if (const std::string line = completed_line(*options); !line.empty()) {
    say(line);
    return 0;
  }
  interruptible.reset();  // from here on a signal stops the run
  start_logging("rekindle", options->layout().log("supervisor"), LogLevel::kInfo);
  look_around(*job, *options);
  say_lines(banner(*options, job->nodes.size()));
  return run_slurm(*job, *options, std::move(*initial));
}

int submit(JobOptions& job_options, const SubmitOptions& submit_options) {
  auto options = job_options.resolve();
  if (!options) return report(options.error());
  return run_submit(*options, submit_options);
}

struct LocalCommand : Command {
  LocalCommand(CLI::App& command, const CommandLine&) : options(command) {}
  int run() override { return local(options); }

  JobOptions options;
};

struct SlurmCommand : Command {
  SlurmCommand(CLI::App& command, const CommandLine& line) : options(command), as_given(line.as_given) {
    add_slurm_options(command, how);
    command.add_flag("--from-scratch", how.from_scratch,
                     "begin at step 0 if a requeued job's run directory is gone");
  }
  int run() override { return slurm(options, how, as_given); }

  JobOptions options;
  SlurmOptions how;
  const std::vector<std::string> as_given;
};

struct SubmitCommand : Command {
  SubmitCommand(CLI::App& command, const CommandLine& line) : options(command), submit_options(line.submit) {
    add_slurm_options(command, submit_options.how);
    // Only for the help text: --print was removed from the arguments before.
    command.add_flag("--print", print, "show the batch script, and submit nothing");
  }
  int run() override { return submit(options, submit_options); }

  JobOptions options;
  SubmitOptions submit_options;
  bool print = false;
};

struct JoinCommand : Command {
  JoinCommand(CLI::App& command, const CommandLine& line) : as_given(line.as_given) {
    constexpr std::uint64_t kMostWorkers = 1024;
    command.add_option("RUN_DIR", run_dir)->required();
    command.add_option("--workers", options.workers)
        ->capture_default_str()
        ->check(whole_number(1, kMostWorkers));
    command.add_option("--wait", wait, "for the run to come back when it is away, with a unit");
    add_network_options(command, options.interface, options.port_range);
  }
  int run() override {
    const auto patience = parse_duration("--wait", wait);
    if (!patience) return report(patience.error());
    options.run_dir = std::filesystem::absolute(run_dir).lexically_normal();
    options.wait = *patience;
    options.interface = or_from_environment(options.interface);
    if (const auto done = go_on_as_kept(options.run_dir, as_given))
      return *done;  // a run accepts only its own build
    return run_join(options);
  }

  std::string run_dir, wait = "10min";
  JoinOptions options;
  const std::vector<std::string> as_given;
};

constexpr CommandRow kCommands[] = {
    {"local", "train on this machine: a supervisor, a coordinator and N workers",
     "rekindle local --run-dir runs/vgg11 --data data --model vgg11 --epochs 10 --workers 2",
     make_command<LocalCommand>},
    {"slurm", "train in a Slurm batch job: the batch script execs it",
     "exec rekindle slurm --run-dir /shared/runs/vgg11 --data /shared/data --model vgg11 --epochs 10",
     make_command<SlurmCommand>},
    {"submit", "write the batch script of a run and hand it to sbatch: submit [OPTIONS] -- [SBATCH OPTIONS]",
     "rekindle submit --run-dir /shared/runs/vgg11 --data /shared/data --model vgg11 --epochs 10 -- --nodes "
     "4 "
     "--time 8:00:00",
     make_command<SubmitCommand>},
    {"join", "add workers on this machine to a live run", "rekindle join /shared/runs/vgg11 --workers 2",
     make_command<JoinCommand>},
};

}  // namespace

std::span<const CommandRow> run_commands() { return kCommands; }

}  // namespace rekindle::app
