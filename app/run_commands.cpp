#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <utility>

#include "app/banner.hpp"
#include "app/command.hpp"
#include "app/completed.hpp"
#include "app/container.hpp"
#include "app/describe.hpp"
#include "app/dry_run.hpp"
#include "app/join.hpp"
#include "app/join_state.hpp"
#include "app/kept_program.hpp"
#include "app/options.hpp"
#include "app/output_relay.hpp"
#include "app/prepare.hpp"
#include "app/ranges.hpp"
#include "app/report.hpp"
#include "app/script.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/slurm_site.hpp"
#include "app/submit.hpp"
#include "app/supervisor.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/own_code.hpp"
#include "base/processors.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"

namespace rekindle::app {
namespace {

Result<std::string> stop_request_of(JobOptions& job_options) {
  REKINDLE_TRY(const std::filesystem::path run_dir, job_options.run_dir());
  return stop_request_in(run_dir);
}

// Before the options are resolved, because another trainer program may not know the run's model.
std::optional<int> leave_to_kept_trainer(JobOptions& job_options, const CommandLine& line) {
  const auto run_dir = job_options.run_dir();
  if (!run_dir) return report(run_dir.error());
  return go_on_with_kept_trainer(*run_dir, line.own_trainer, line.as_given);
}

int local(JobOptions& job_options, const CommandLine& line) {
  std::optional<EndOnSignal> interruptible(std::in_place);
  const auto old_stop = stop_request_of(job_options);
  if (!old_stop) return report(old_stop.error());
  const auto run_dir = job_options.run_dir();
  if (!run_dir) return report(run_dir.error());
  interruptible.reset();  // end the signal thread before this process may become another program
  const bool begins_anew = begins_with_changed_trainer(*run_dir, line.own_trainer);
  if (begins_anew)
    say(str(line.own_trainer.string(),
            " has changed, and the run has no checkpoint yet: it begins with the changed program"));
  else if (const auto done = go_on_with_kept_trainer(*run_dir, line.own_trainer, line.as_given))
    return *done;
  interruptible.emplace();
  auto options = job_options.resolve();
  if (!options) return report(options.error());
  options->old_stop = *old_stop;
  options->own_trainer = line.own_trainer;
  if (options->dry_run) {
    if (const Status checked = check_for_later(*options, true); !checked) return report(checked.error());
    if (const Status free = check_not_held(*options); !free) return report(free.error());
    if (const auto done = end_if_complete(*options)) return *done;
    interruptible.reset();
    return dry_run(*options, line.as_given);
  }
  // Of a script, the image was asked already. Once it has served the run, it is not in doubt.
  if (!is_script(options->job) && !path_exists(options->run_dir)) {
    if (const Status starts = try_container(options->job, options->run_dir); !starts)
      return report(starts.error());
  }
  auto initial = prepare(*options);
  if (!initial) return report(initial.error());
  if (const auto done = end_if_complete(*options)) return *done;
  if (!line.own_trainer.empty()) {
    if (begins_anew) {
      if (const Status forgotten = forget_kept_program(options->layout()); !forgotten)
        return report(forgotten.error());
    }
    const auto kept = keep_program(options->layout(), {line.own_trainer, options->job.task.script});
    if (!kept) return report(kept.error());
    interruptible.reset();  // end the signal thread before this process becomes another program
    if (const auto done = go_on_as_kept(options->run_dir, line.as_given)) return *done;
  }
  interruptible.reset();  // from here on a signal stops the run
  start_logging("rekindle", options->layout().log("supervisor"), LogLevel::kInfo);
  say_lines(banner(*options, options->workers));
  for (const std::string& text : crowding(*options, processors())) say(text);
  return run_local(*options, std::move(*initial));
}

// A signal before the options are known: a script may take minutes up to its rekindle.run(). Without a run
// directory nothing counts the attempts, and a script that always takes too long would be requeued for ever.
int end_slurm_unresolved(const SlurmOptions& how, const std::filesystem::path& run_dir, int signal) {
  const auto job = this_job(how);
  if (!job) return report(job.error());
  if (run_dir.empty())
    return report(Error{ExitCode::kSaved, "the job ends before the script has called rekindle.run()",
                        "it is requeued from here, too, if --run-dir stands on the command line"});
  return end_slurm_early(*job, unresolved_options(run_dir), signal);
}

// An error in the options of a later attempt: the attempts before had none with the same options, so this
// node or its storage is probably the cause.
int fail_slurm_unresolved(const SlurmOptions& how, const std::filesystem::path& run_dir, const Error& error) {
  auto job = this_job(how);
  if (!job || run_dir.empty() || job->environment.is_first_attempt()) return report(error);
  if (const Status there = correct_and_check(*job, run_dir); !there) return report(there.error());
  return fail_slurm(*job, unresolved_options(run_dir), error);
}

Status one_worker_a_node(const LocalOptions& options) {
  if (options.workers == 1) return {};
  return fail(ExitCode::kUsage, "--workers is for rekindle local: a job has one worker a node",
              "see --trainers-per-worker");
}

// A signal that is there already waits until the run directory is known.
int slurm(JobOptions& job_options, const SlurmOptions& how, const CommandLine& line) {
  const auto end_before = [&how](const std::filesystem::path& run_dir) {
    return [how, run_dir](int signal) { return end_slurm_unresolved(how, run_dir, signal); };
  };
  const auto given = job_options.given_run_dir();
  if (!given) return report(given.error());
  std::optional<EndOnSignal> interruptible(end_before(*given));
  const auto run_dir = job_options.run_dir();
  interruptible.reset();  // a signal waits while the next attempt is asked for
  if (!run_dir) return fail_slurm_unresolved(how, *given, run_dir.error());
  interruptible.emplace(end_before(*run_dir));
  const auto old_stop = stop_request_of(job_options);
  interruptible.reset();  // end the signal thread before this process may become another program
  if (!old_stop) return fail_slurm_unresolved(how, *run_dir, old_stop.error());
  if (const auto done = leave_to_kept_trainer(job_options, line)) return *done;
  interruptible.emplace(end_before(*run_dir));
  auto options = job_options.resolve();
  interruptible.reset();
  if (!options) return fail_slurm_unresolved(how, *run_dir, options.error());
  options->old_stop = *old_stop;
  options->own_trainer = line.own_trainer;
  if (options->dry_run)
    return report(Error{ExitCode::kUsage, "--dry-run is for rekindle local and rekindle submit",
                        "on a node of an allocation, as by salloc, call rekindle local --dry-run"});
  if (const Status checked = one_worker_a_node(*options); !checked) return report(checked.error());
  options->job.launched_by = "slurm";
  if (const auto done = go_on_as_kept(options->run_dir, line.as_given)) return *done;
  auto job = this_job(how);
  if (!job) return report(job.error());
  const auto end_early = [begun = *job, wanted = *options](int signal) {
    return end_slurm_early(begun, wanted, signal);
  };
  interruptible.emplace(end_early);
  const auto refuse = [&](const Error& error) {
    interruptible.reset();
    return fail_slurm(*job, *options, error);
  };
  if (const auto completed = complete_job(*job, *options); !completed) return refuse(completed.error());
  // Write nothing to the run directory before this check, not even the count of attempts.
  if (const Status there = check_run_is_there(*job, options->run_dir); !there) return report(there.error());
  auto initial = prepare(*options);
  if (!initial) return refuse(initial.error());
  if (const auto kept = keep_program(options->layout(), {line.own_trainer, options->job.task.script}); !kept)
    return refuse(kept.error());
  interruptible.reset();  // end the signal thread before this process may become another program
  if (const auto done = go_on_as_kept(options->run_dir, line.as_given)) return *done;
  interruptible.emplace(end_early);
  if (const auto done = end_if_complete(*options)) return *done;
  interruptible.reset();  // from here on a signal stops the run
  const OutputRelay output;
  start_logging("rekindle", options->layout().log("supervisor"), LogLevel::kInfo, LogWrites::kInBackground);
  keep_code_in_memory();
  look_around(*job, *options);
  say_lines(banner(*options, job->nodes.size()));
  return run_slurm(*job, *options, std::move(*initial));
}

int submit(JobOptions& job_options, const SubmitOptions& submit_options, const CommandLine& line) {
  if (const auto done = leave_to_kept_trainer(job_options, line)) return *done;
  auto options = job_options.resolve();
  if (!options) return report(options.error());
  if (const Status checked = one_worker_a_node(*options); !checked) return report(checked.error());
  options->own_trainer = line.own_trainer;
  return run_submit(*options, submit_options);
}

// Asks the trainer program that this command line trains with.
AskNames ask_trainer_of(const CommandLine& line) {
  return [own = line.own_trainer] { return ask_names(own); };
}

struct LocalCommand : Command {
  LocalCommand(CLI::App& command, const CommandLine& of)
      : options(command, ask_trainer_of(of), of.script, describe_script), line(of) {}
  int run() override { return local(options, line); }

  JobOptions options;
  const CommandLine line;
};

// A job has one worker a node.
void hide_workers(CLI::App& command) { command.get_option("--workers")->group(""); }

struct SlurmCommand : Command {
  SlurmCommand(CLI::App& command, const CommandLine& of)
      : options(command, ask_trainer_of(of), of.script, describe_script), line(of) {
    options.expand_config(expand_in_job);
    add_slurm_options(command, how);
    hide_workers(command);
    command.add_flag("--from-scratch", how.from_scratch,
                     "begin at step 0 if a requeued job's run directory is gone");
  }
  int run() override { return slurm(options, how, line); }

  JobOptions options;
  SlurmOptions how;
  const CommandLine line;
};

struct SubmitCommand : Command {
  SubmitCommand(CLI::App& command, const CommandLine& of)
      : options(command, ask_trainer_of(of), of.script, describe_script),
        submit_options(of.submit),
        line(of) {
    options.expand_config(expand_without_job);
    add_slurm_options(command, submit_options.how);
    hide_workers(command);
    // Only for the help text: --print was removed from the arguments before.
    command.add_flag("--print", print, "show the batch script, and submit nothing");
    command.get_option("--dry-run")
        ->description("check everything, and ask Slurm when the job would start; makes no step");
  }
  int run() override { return submit(options, submit_options, line); }

  JobOptions options;
  SubmitOptions submit_options;
  const CommandLine line;
  bool print = false;
};

struct JoinCommand : Command {
  JoinCommand(CLI::App& command, const CommandLine& line) : as_given(line.as_given) {
    constexpr std::uint64_t kMostWorkers = 1024;
    command.add_option("RUN_DIR", run_dir, "the directory of the live run")->required();
    command.add_option("--workers", options.workers, "workers to add")
        ->capture_default_str()
        ->transform(whole_number(1, kMostWorkers));
    command.add_option("--wait", wait, "for the run to begin, or to come back when it is away, with a unit")
        ->capture_default_str();
    add_network_options(command, options.interface, options.port_range);
  }
  int run() override {
    const auto patience = parse_duration("--wait", wait);
    if (!patience) return report(patience.error());
    options.run_dir = std::filesystem::absolute(run_dir).lexically_normal();
    options.wait = *patience;
    options.interface = or_from_environment(options.interface);
    await_run(options.run_dir, options.wait);
    if (const auto done = go_on_as_kept(options.run_dir, as_given))
      return *done;  // a run accepts only its own build
    return run_join(options);
  }

  std::string run_dir, wait = "10min";
  JoinOptions options;
  const std::vector<std::string> as_given;
};

constexpr CommandRow kCommands[] = {
    {"local", kTraining,
     "train on this machine, a built-in model or a script: local [OPTIONS] [SCRIPT.py ITS ARGUMENTS]",
     "rekindle local --run-dir runs/vgg11 --data data --model vgg11 --epochs 10 --workers 2",
     make_command<LocalCommand>},
    {"slurm", kTraining, "train in a Slurm batch job: the batch script execs it",
     "exec rekindle slurm --run-dir /shared/runs/vgg11 --data /shared/data --model vgg11 --epochs 10",
     make_command<SlurmCommand>},
    {"submit", kTraining,
     "write the batch script of a run and hand it to sbatch: submit [OPTIONS] [SCRIPT.py ITS "
     "ARGUMENTS] -- [SBATCH OPTIONS]",
     "rekindle submit --run-dir /shared/runs/vgg11 --data /shared/data --model vgg11 --epochs 10 -- --nodes "
     "4 --gpus-per-node 4 --cpus-per-task 32 --time 8:00:00",
     make_command<SubmitCommand>},
    {"join", kTraining, "add workers on this machine to a live run",
     "rekindle join /shared/runs/vgg11 --workers 2", make_command<JoinCommand>},
};

}  // namespace

std::span<const CommandRow> run_commands() { return kCommands; }

}  // namespace rekindle::app
