// rekindle: the command line.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <new>
#include <stdexcept>

#include "app/audit.hpp"
#include "app/foreign_file.hpp"
#include "app/inspect.hpp"
#include "app/join.hpp"
#include "app/options.hpp"
#include "app/prepare.hpp"
#include "app/report.hpp"
#include "app/signals.hpp"
#include "app/supervisor.hpp"
#include "app/tools.hpp"
#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "run/layout.hpp"

namespace rekindle::app {
namespace {

int report(const Status& status) { return status ? 0 : app::report(status.error()); }

// The parts live in programs of their own, so that only they load CAF or LibTorch.
int become(const char* program, std::vector<std::string> arguments) {
  const std::string path = own_executable().parent_path() / program;
  arguments.insert(arguments.begin(), path);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  return app::report(errno_error("cannot start", path));
}

int local(JobOptions& job_options) {
  hold_signals();
  auto options = job_options.resolve();
  if (!options) return app::report(options.error());
  auto initial = prepare(*options);
  if (!initial) return app::report(initial.error());
  if (const std::string line = completed_line(*options); !line.empty()) {
    std::printf("%s\n", line.c_str());
    return 0;
  }
  start_logging("rekindle", run::Layout(options->run_dir).log("supervisor"), LogLevel::kInfo);
  return run_local(*options, std::move(*initial));
}

int main(int argc, char** argv) {
  if (argc > 1) {
    const std::string part = argv[1];
    if (part == "coordinator" || part == "worker") return become("rekindle-control", {argv + 1, argv + argc});
    if (part == "trainer") return become("rekindle-trainer", {argv + 2, argv + argc});
    if (part == kReadH5 && argc == 3) return run_read_h5(argv[2]);
  }
  CLI::App cli("Rekindle trains image models with data parallelism and never loses work.", "rekindle");
  cli.require_subcommand(1);
  cli.footer("Parts for other launchers: rekindle coordinator | worker | trainer.  See docs/.");

  CLI::App* local_command =
      cli.add_subcommand("local", "train on this machine: a supervisor, a coordinator and N workers");
  JobOptions job_options(*local_command);

  std::string run_dir, path, file, kind, directory;
  bool json = false, with_optimizer = false;
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
  inspect_command->add_flag("--verify,!--no-verify", inspecting.verify,
                            "read every byte (default), or only look for the files");
  CLI::App* digest_command = cli.add_subcommand("digest", "one line: the hash of the whole state");
  digest_command->add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
  digest_command->add_option("--step", step, "default: the newest");
  CLI::App* export_command =
      cli.add_subcommand("export", "a checkpoint as .safetensors, .h5 or .pt, torchvision's names");
  export_command->add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
  export_command->add_option("FILE", file)->required();
  export_command->add_flag("--with-optimizer", with_optimizer,
                           "with the optimizer's tensors, as momentum.NAME");
  CLI::App* import_command = cli.add_subcommand(
      "import", "a .safetensors or .h5 file of another program, checked, as .safetensors, .h5 or .pt");
  import_command->add_option("FILE", path)->required();
  import_command->add_option("OUT", file)->required();
  JoinOptions join;
  std::string wait = "10min";
  CLI::App* join_command =
      cli.add_subcommand("join", "add workers on this machine to a run that is going on");
  join_command->add_option("RUN_DIR", run_dir)->required();
  join_command->add_option("--workers", join.workers)
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1024}));
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
  audit_command->add_option("--workers", audit.workers)
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1024}));
  CLI::App* data_command = cli.add_subcommand("make-data", "write a data set of synthetic images");
  data_command->add_option("KIND", kind, "cifar10 or mnist")->required();
  data_command->add_option("DIR", directory)->required();
  data_command->add_option("--samples", samples, "training images; a fifth as many for testing")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10000000}));
  data_command->add_option("--seed", seed);

  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = cli.get_subcommands();
    std::cout << (chosen.empty() ? cli.help() : chosen.front()->help());
    return 0;
  } catch (const CLI::ExtrasError&) {
    const auto chosen = cli.get_subcommands();
    const CLI::App& command = chosen.empty() ? cli : *chosen.front();
    const auto extras = cli.remaining(true);
    return app::report(unknown_option(command, extras.empty() ? "" : extras.front(), false));
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    return app::report(Error{ExitCode::kUsage, what, "see rekindle --help"});
  }
  if (local_command->parsed()) return local(job_options);
  if (join_command->parsed()) {
    const auto patience = parse_duration(wait);
    if (!patience) return app::report(patience.error());
    hold_signals();
    join.run_dir = std::filesystem::absolute(run_dir).lexically_normal();
    join.wait = *patience;
    join.interface = or_from_environment(join.interface);
    return run_join(join);
  }
  if (audit_command->parsed()) {
    audit.run_dir = std::filesystem::absolute(run_dir).lexically_normal();
    return run_audit(audit);
  }
  if (stop_command->parsed()) return report(request_stop(run_dir));
  if (status_command->parsed()) return report(show_status(run_dir, json));
  if (inspect_command->parsed()) return report(inspect(path, inspecting));
  if (digest_command->parsed()) return report(digest(path, step));
  if (import_command->parsed()) return report(import_file(path, file));
  if (export_command->parsed()) return report(export_to(path, file, with_optimizer));
  return report(data::make_data(kind, directory, samples, seed));
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
