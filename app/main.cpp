// rekindle: the command line.
#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <new>
#include <stdexcept>
#include <thread>

#include "app/audit.hpp"
#include "app/banner.hpp"
#include "app/foreign_file.hpp"
#include "app/inspect.hpp"
#include "app/join.hpp"
#include "app/kept_program.hpp"
#include "app/options.hpp"
#include "app/prepare.hpp"
#include "app/ranges.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "app/slurm_job.hpp"
#include "app/slurm_site.hpp"
#include "app/slurm_successor.hpp"
#include "app/spellings.hpp"
#include "app/submit.hpp"
#include "app/supervisor.hpp"
#include "app/tools.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/nearest.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/trust.hpp"
#include "slurm/environment.hpp"

namespace rekindle::app {
namespace {

int report(const Status& status) { return status ? 0 : app::report(status.error()); }

// The parts live in programs of their own, so that only they load CAF or LibTorch.
int become(const FilePath& program, std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // Within the directory that was checked, whatever its name leads to by now.
  const auto folder = open_file(program.parent_path(), O_RDONLY | O_DIRECTORY);
  if (!folder) return app::report(folder.error());
  ::execveat(folder->get(), program.filename().c_str(), argv.data(), environ, 0);
  return app::report(errno_error("cannot start", program));
}

int local(JobOptions& job_options) {
  std::optional<EndOnSignal> interruptible(std::in_place);
  auto options = job_options.resolve();
  if (!options) return app::report(options.error());
  auto initial = prepare(*options);
  if (!initial) return app::report(initial.error());
  if (const std::string line = completed_line(*options); !line.empty()) {
    say(line);
    return 0;
  }
  interruptible.reset();  // from here on a signal stops the run
  start_logging("rekindle", run::Layout(options->run_dir).log("supervisor"), LogLevel::kInfo);
  say_lines(banner(*options, options->workers));
  for (const std::string& line : crowding(*options, std::thread::hardware_concurrency())) say(line);
  return run_local(*options, std::move(*initial));
}

// What a rebuild may not change: the run's own programs go on, if it has kept them and they are not these.
std::optional<int> go_on_as_kept(const std::filesystem::path& run_dir,
                                 const std::vector<std::string>& arguments) {
  const run::Layout layout(run_dir);
  if (const Status trusted = run::check_trusted(layout); !trusted) return app::report(trusted.error());
  const FilePath program = layout.programs() / "rekindle";
  if (!path_exists(program) || is_here(layout.programs())) return std::nullopt;
  return become(program, arguments);
}

int slurm(JobOptions& job_options, const SlurmOptions& how, const std::vector<std::string>& arguments) {
  auto options = job_options.resolve();
  if (!options) return app::report(options.error());
  if (options->workers != 1)
    return app::report(Error{ExitCode::kUsage, "--workers is for rekindle local: a job has one worker a node",
                             "see --trainers-per-worker"});
  options->job.launched_by = "slurm";
  if (const auto done = go_on_as_kept(options->run_dir, arguments)) return *done;
  auto job = this_job(how);
  if (!job) return app::report(job.error());
  std::optional<EndOnSignal> interruptible(
      [begun = *job, wanted = *options](int signal) { return end_slurm_early(begun, wanted, signal); });
  if (const auto completed = complete_job(*job, *options); !completed)
    return fail_slurm(*job, *options, completed.error());
  // Nothing is written there before this is known, not even the count of attempts.
  if (!how.from_scratch) {
    if (const Status there = check_run_is_there(*job, options->run_dir); !there)
      return app::report(there.error());
  }
  auto initial = prepare(*options);
  if (!initial) return fail_slurm(*job, *options, initial.error());
  if (const auto kept = keep_program(run::Layout(options->run_dir)); !kept)
    return fail_slurm(*job, *options, kept.error());
  interruptible.reset();  // from here on a signal stops the run
  if (const auto done = go_on_as_kept(options->run_dir, arguments)) return *done;
  if (const std::string line = completed_line(*options); !line.empty()) {
    say(line);
    return 0;
  }
  start_logging("rekindle", run::Layout(options->run_dir).log("supervisor"), LogLevel::kInfo);
  look_around(*job, *options);
  say_lines(banner(*options, job->nodes.size()));
  return run_slurm(*job, *options, std::move(*initial));
}

// %A, %a and %j are this job's.
void expand_patterns(std::vector<std::string>& arguments) {
  const auto environment = slurm::read_environment();
  if (!environment) return;
  for (std::string& argument : arguments) argument = slurm::expand_pattern(argument, *environment);
}

int submit(JobOptions& job_options, SubmitOptions& submit_options) {
  auto options = job_options.resolve();
  if (!options) return app::report(options.error());
  return run_submit(*options, submit_options);
}

// What is wrong with a command line that CLI11 cannot parse.
Error wrong_command_line(const CLI::App& cli, const std::string& command, const CLI::ParseError& error) {
  std::vector<std::string> commands;
  for (const CLI::App* each : cli.get_subcommands(nullptr)) commands.push_back(each->get_name());
  const auto chosen = cli.get_subcommands();
  if (chosen.empty() && command.empty()) return {ExitCode::kUsage, "no command", "see rekindle --help"};
  if (chosen.empty() && !command.starts_with("-"))
    return {ExitCode::kUsage, str("there is no command '", command, "'"), did_you_mean(command, commands)};
  const CLI::App& of = chosen.empty() ? cli : *chosen.front();
  if (const auto extras = cli.remaining(true); !extras.empty())
    return unknown_option(of, extras.front(), false);
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return {ExitCode::kUsage, what, str("see ", full_name(of), " --help")};
}

int main(int argc, char** argv) {
  const std::vector<std::string> as_given(argv, argv + argc);
  std::vector<std::string> arguments = as_given;
  use_usual_names(arguments);
  const std::string first = argc > 1 ? arguments[1] : "";
  // Before anything that takes time: one that comes now is heard when there is somebody to hear it.
  if (first == "local" || first == "slurm" || first == "join" || first == kSlurmSuccessor) hold_signals();
  SubmitOptions submit_options;
  if (first == "slurm" || first == "join") expand_patterns(arguments);
  if (first == "submit") submit_options = take_submit_options(arguments);
  if (first == "coordinator" || first == "worker") return become(program_path("rekindle-control"), arguments);
  if (first == "trainer") {
    arguments.erase(arguments.begin());
    return become(program_path("rekindle-trainer"), arguments);
  }
  if (first == kSlurmSuccessor && argc == 4) return run_successor(argv[2], argv[3]);
  if (first == kReadH5 && argc == 3) return run_read_h5(argv[2]);
  CLI::App cli("Rekindle trains image models with data parallelism and never loses work.", "rekindle");
  cli.require_subcommand(1);
  cli.set_version_flag("--version", [] { return "rekindle " + own_build().value_or("?"); });
  cli.footer("Parts for other launchers: rekindle coordinator | worker | trainer.  See docs/.");

  CLI::App* local_command =
      cli.add_subcommand("local", "train on this machine: a supervisor, a coordinator and N workers");
  JobOptions job_options(*local_command);

  CLI::App* slurm_command =
      cli.add_subcommand("slurm", "train in a Slurm batch job: the batch script execs it");
  JobOptions slurm_job_options(*slurm_command);
  SlurmOptions slurm_options;
  add_slurm_options(*slurm_command, slurm_options);
  slurm_command->add_flag("--from-scratch", slurm_options.from_scratch,
                          "begin at step 0 where a requeued job's run directory is gone");
  CLI::App* submit_command = cli.add_subcommand(
      "submit",
      "write the batch script of a run and hand it to sbatch: submit [OPTIONS] -- [SBATCH OPTIONS]");
  JobOptions submit_job_options(*submit_command);
  add_slurm_options(*submit_command, submit_options.how);
  bool print = false;  // for --help: it has been taken out of the arguments
  submit_command->add_flag("--print", print, "show the batch script, and submit nothing");

  std::string run_dir, path, file, kind, directory;
  bool json = false;
  ExportOptions exporting;
  InspectOptions inspecting;
  std::optional<std::uint64_t> step;
  std::uint64_t samples = 50000, seed = 1;
  CLI::App* status_command = cli.add_subcommand("status", "what a run is doing, on one screen");
  status_command->add_option("RUN_DIR", run_dir)->required();
  status_command->add_flag("--json", json, "for programs");
  CLI::App* inspect_command =
      cli.add_subcommand("inspect", "what is in a checkpoint or run, and whether it is whole");
  inspect_command->add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
  inspect_command->add_flag("--json", inspecting.json, "for programs");
  bool untrusted = false;
  inspect_command->add_flag(
      "--untrusted", untrusted,
      "of a directory from somebody else: what in it would be executed or followed; reads and "
      "executes nothing");
  inspect_command->add_flag("--verify,!--no-verify", inspecting.verify,
                            "read every byte (default), or only look for the files");
  CLI::App* digest_command = cli.add_subcommand("digest", "one line: the hash of the whole state");
  digest_command->add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
  digest_command->add_option("--step", step, "default: the newest");
  CLI::App* export_command =
      cli.add_subcommand("export", "a checkpoint as .safetensors, .h5 or .pt, torchvision's names");
  export_command->add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
  export_command->add_option("FILE", file)->required();
  export_command->add_flag("--with-optimizer", exporting.with_optimizer,
                           "with the optimizer's tensors, as momentum.NAME");
  export_command->add_flag("--force", exporting.force, "overwrite FILE");
  CLI::App* import_command = cli.add_subcommand(
      "import", "a .safetensors or .h5 file of another program, checked, as .safetensors, .h5 or .pt");
  import_command->add_option("FILE", path)->required();
  import_command->add_option("OUT", file)->required();
  JoinOptions join;
  std::string wait = "10min";
  CLI::App* join_command =
      cli.add_subcommand("join", "add workers on this machine to a run that is going on");
  join_command->add_option("RUN_DIR", run_dir)->required();
  join_command->add_option("--workers", join.workers)->capture_default_str()->check(whole_number(1, 1024));
  join_command->add_option("--wait", wait, "for the run to come back when it is away, with a unit");
  add_network_options(*join_command, join.interface, join.port_range);
  CLI::App* stop_command =
      cli.add_subcommand("stop", "finish the step in flight, save the state and end the run");
  stop_command->add_option("RUN_DIR", run_dir)->required();
  AuditOptions audit;
  CLI::App* audit_command = cli.add_subcommand(
      "audit", "make the steps between two kept checkpoints once more, and compare the bits");
  audit_command->add_option("RUN_DIR", run_dir)->required();
  audit_command->add_option("--from", audit.from, "step of a kept checkpoint; 0: the initial values")
      ->required();
  audit_command->add_option("--to", audit.to, "step of a later one")->required();
  audit_command->add_option("--workers", audit.workers)->capture_default_str()->check(whole_number(1, 1024));
  CLI::App* data_command = cli.add_subcommand("make-data", "write a data set of synthetic images");
  data_command->add_option("KIND", kind, "cifar10 or mnist")->required();
  data_command->add_option("DIR", directory)->required();
  data_command->add_option("--samples", samples, "training images; a fifth as many for testing")
      ->capture_default_str()
      ->check(whole_number(1, 10000000));
  data_command->add_option("--seed", seed, "of all draws")->capture_default_str();

  try {
    std::vector<const char*> words;
    words.reserve(arguments.size());
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    cli.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    const auto chosen = cli.get_subcommands();
    std::cout << (chosen.empty() ? cli.help() : chosen.front()->help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    say(version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return app::report(wrong_command_line(cli, first, error));
  }
  if (local_command->parsed()) return local(job_options);
  if (submit_command->parsed()) return submit(submit_job_options, submit_options);
  if (slurm_command->parsed()) return slurm(slurm_job_options, slurm_options, as_given);
  if (join_command->parsed()) {
    const auto patience = parse_duration("--wait", wait);
    if (!patience) return app::report(patience.error());
    join.run_dir = std::filesystem::absolute(run_dir).lexically_normal();
    join.wait = *patience;
    join.interface = or_from_environment(join.interface);
    if (const auto done = go_on_as_kept(join.run_dir, as_given)) return *done;  // it takes no other build
    return run_join(join);
  }
  if (audit_command->parsed()) {
    audit.run_dir = std::filesystem::absolute(run_dir).lexically_normal();
    return run_audit(audit);
  }
  if (stop_command->parsed()) return report(request_stop(run_dir));
  if (status_command->parsed()) return report(show_status(run_dir, json));
  if (inspect_command->parsed())
    return report(untrusted ? inspect_untrusted(path) : inspect(path, inspecting));
  if (digest_command->parsed()) return report(digest(path, step));
  if (import_command->parsed()) return report(import_file(path, file));
  if (export_command->parsed()) return report(export_to(path, file, exporting));
  return report(make_data(kind, directory, samples, seed));
}

}  // namespace
}  // namespace rekindle::app

int main(int argc, char** argv) {
  using rekindle::Error;
  const Error no_memory{rekindle::ExitCode::kGaveUp, "there is not enough memory for this",
                        "a file may claim more than it holds"};
  try {
    return rekindle::app::main(argc, argv);
  } catch (const std::bad_alloc&) {
    return rekindle::app::report(no_memory);
  } catch (const std::length_error&) {
    return rekindle::app::report(no_memory);
  }
}
