#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>

#include "app/audit.hpp"
#include "app/command.hpp"
#include "app/completion.hpp"
#include "app/evaluate.hpp"
#include "app/inspect.hpp"
#include "app/kept_program.hpp"
#include "app/places.hpp"
#include "app/ranges.hpp"
#include "app/report.hpp"
#include "app/selftest.hpp"
#include "app/status.hpp"
#include "app/tools.hpp"
#include "app/views.hpp"
#include "base/lists.hpp"
#include "data/dataset.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostWorkers = 1024;
constexpr std::uint64_t kMostSamples = 10000000;

struct StatusCommand : Command {
  StatusCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR", run_dir)->required();
    CLI::Option* as_json = command.add_flag("--json", json, "for programs");
    CLI::Option* again =
        command.add_flag("--watch", watch, "again every second, until Ctrl-C")->excludes(as_json);
    CLI::Option* file =
        command.add_option("--html", html, "write the page of the run, as one file")->type_name("FILE");
    command.add_flag("--link", link, "the link to its page (--status-port)")->excludes(as_json, again, file);
    file->excludes(as_json, again);
  }
  int run() override {
    if (link) return exit_code_of(print_page_link(run_dir));
    if (!html.empty()) return exit_code_of(write_page(run_dir, html));
    return exit_code_of(watch ? watch_status(run_dir) : show_status(run_dir, json));
  }

  std::string run_dir, html;
  bool json = false, watch = false, link = false;
};

struct StopCommand : Command {
  StopCommand(CLI::App& command, const CommandLine&) { command.add_option("RUN_DIR", run_dir)->required(); }
  int run() override { return exit_code_of(request_stop(run_dir)); }

  std::string run_dir;
};

struct InspectCommand : Command {
  InspectCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
    CLI::Option* json = command.add_flag("--json", options.json, "for programs");
    command
        .add_flag("--untrusted", untrusted,
                  "of a directory from somebody else: what in it would be executed, followed or put into the "
                  "environment; executes nothing")
        ->excludes(json);
    command.add_flag("--verify,!--no-verify", options.verify,
                     "read every byte (default), or only look for the files");
  }
  int run() override { return exit_code_of(untrusted ? inspect_untrusted(path) : inspect(path, options)); }

  std::string path;
  InspectOptions options;
  bool untrusted = false;
};

// Which checkpoint of a run.
struct StepChoice {
  void add_to(CLI::App& command) {
    CLI::Option* by_step =
        command.add_option("--step", step, "of a run: the checkpoint; default: the newest")
            ->transform(from_0());
    command.add_flag("--best", best, "of a run: the checkpoint whose evaluation was the best (--keep-best)")
        ->excludes(by_step);
  }
  Result<std::optional<std::uint64_t>> of(const fs::path& path) const {
    return chosen_step(path, step, best);
  }

  std::optional<std::uint64_t> step;
  bool best = false;
};

struct DigestCommand : Command {
  DigestCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
    choice.add_to(command);
  }
  int run() override {
    const auto step = choice.of(path);
    return step ? exit_code_of(digest(path, *step)) : report(step.error());
  }

  std::string path;
  StepChoice choice;
};

struct AuditCommand : Command {
  AuditCommand(CLI::App& command, const CommandLine& of) : line(of) {
    command.add_option("RUN_DIR", run_dir)->required();
    command.add_option("--from", options.from, "step of a kept checkpoint; 0: the initial values")
        ->required()
        ->transform(from_0());
    command.add_option("--to", options.to, "step of a later one")->required()->transform(from_0());
    command.add_option("--workers", options.workers, "workers that make the steps")
        ->capture_default_str()
        ->transform(whole_number(1, kMostWorkers));
    command.add_option("--data", data, "where the run's data set is now, if it was moved")->type_name("PATH");
  }
  int run() override {
    options.run_dir = fs::absolute(run_dir).lexically_normal();
    if (!data.empty()) options.data = fs::absolute(data).lexically_normal();
    if (const auto done = go_on_with_kept_trainer(options.run_dir, {}, line.as_given)) return *done;
    return run_audit(options);
  }

  const CommandLine line;
  std::string run_dir, data;
  AuditOptions options;
};

struct ExportCommand : Command {
  ExportCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR|CHECKPOINT_DIR", path)->required();
    command.add_option("FILE", file)->required();
    choice.add_to(command);
    command.add_flag(
        "--with-optimizer", options.with_optimizer,
        "all tensors of the state: the optimizer's as momentum.NAME, the moving average as ema.NAME");
    command.add_flag("--raw", options.raw,
                     "the parameters themselves, although the run has a moving average (--ema)");
    command.add_flag("--force", options.force, "overwrite FILE");
  }
  int run() override {
    const auto step = choice.of(path);
    if (!step) return report(step.error());
    options.step = *step;
    return exit_code_of(export_to(path, file, options));
  }

  std::string path, file;
  StepChoice choice;
  ExportOptions options;
};

struct EvaluateCommand : Command {
  EvaluateCommand(CLI::App& command, const CommandLine& of) : app(command), line(of) {
    command.add_option("RUN_DIR|CHECKPOINT_DIR|FILE", options.source)->required();
    add_evaluation_options(command, options.raw_options);
    choice.add_to(command);
    command.add_flag("--raw", options.raw,
                     "the parameters themselves, although the run has a moving average (--ema)");
    command.add_flag("--per-class", options.per_class, "the accuracy of each class");
    command.add_flag("--json", options.json, "for programs");
    command
        .add_option(
            "--batch-size", options.batch_size,
            "samples at a time; default: of a run with a model of your own those of a micro-batch, else 64")
        ->transform(whole_number(1, kMostSamples));
    command.add_option("--threads", options.threads, "default: every processor that it may use")
        ->transform(threads());
  }
  int run() override {
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0) options.given.insert(option->get_single_name());
    }
    if (const auto done = go_on_with_kept_trainer(run_of(options.source), line.own_trainer, line.as_given))
      return *done;
    const auto step = choice.of(options.source);
    if (!step) return report(step.error());
    options.step = *step;
    return exit_code_of(evaluate(options, line.own_trainer));
  }

  CLI::App& app;
  const CommandLine line;
  StepChoice choice;
  EvaluateOptions options;
};

struct ImportCommand : Command {
  ImportCommand(CLI::App& command, const CommandLine&) {
    command.add_option("FILE", file)->required();
    command.add_option("OUT", out)->required();
    command.add_flag("--force", force, "overwrite OUT");
  }
  int run() override { return exit_code_of(import_file(file, out, force)); }

  std::string file, out;
  bool force = false;
};

struct MakeDataCommand : Command {
  MakeDataCommand(CLI::App& command, const CommandLine&) {
    command.add_option("KIND", kind, joined(data::names_of_datasets(), ", "))->required();
    command.add_option("PATH", path, "a folder to write into, or for a text the file to write")->required();
    command.add_option("--samples", samples, "training samples: images, or 256 bytes of text")
        ->capture_default_str()
        ->transform(positive());  // data::make_data() knows the most
    command.add_option("--seed", data_seed, "of all draws")->capture_default_str()->transform(seed());
  }
  int run() override { return exit_code_of(make_data(kind, path, samples, data_seed)); }

  std::string kind, path;
  std::uint64_t samples = 50000, data_seed = 1;
};

struct SelftestCommand : Command {
  SelftestCommand(CLI::App& command, const CommandLine&) {
    command.add_option("--device", options.device, "auto, cpu or cuda")
        ->capture_default_str()
        // twin: for tests; not shown
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}) | CLI::IsMember({"twin"}).description(""));
    command
        .add_option("--workers", options.workers,
                    "the most trainers at a time; default: one a processor, 2 to 4")
        ->transform(whole_number(2, 8));
    command.add_option("--keep", keep, "make the runs in this folder, and leave them there");
  }
  int run() override {
    options.keep = keep;
    return run_selftest(options);
  }

  SelftestOptions options;
  std::string keep;
};

struct CompletionCommand : Command {
  CompletionCommand(CLI::App& command, const CommandLine&) : program(*command.get_parent()) {
    command.add_option("SHELL", shell, "bash, zsh or fish")
        ->required()
        ->transform(CLI::CheckedTransformer(std::map<std::string, Shell>{
            {"bash", Shell::kBash}, {"zsh", Shell::kZsh}, {"fish", Shell::kFish}}));
  }
  int run() override {
    std::cout << completion_script(program, shell);
    return 0;
  }

  const CLI::App& program;
  Shell shell = Shell::kBash;
};

constexpr CommandRow kCommands[] = {
    {"status", kWatching, "what a run is doing, on one screen", "rekindle status runs/vgg11",
     make_command<StatusCommand>},
    {"stop", kTraining, "finish the step in flight, save the state and end the run",
     "rekindle stop runs/vgg11", make_command<StopCommand>},
    {"inspect", kChecking, "what is in a checkpoint or run, and whether every byte is right",
     "rekindle inspect runs/vgg11", make_command<InspectCommand>},
    {"digest", kChecking, "one line: the hash of the whole state", "rekindle digest runs/vgg11 --step 1000",
     make_command<DigestCommand>},
    {"audit", kChecking, "make the steps between two kept checkpoints once more, and compare the bits",
     "rekindle audit runs/vgg11 --from 1000 --to 2000 --workers 4", make_command<AuditCommand>},
    {"export", kFiles, "a checkpoint as .safetensors, .h5 or .pt, torchvision's names",
     "rekindle export runs/vgg11 vgg11.safetensors", make_command<ExportCommand>},
    {"evaluate", kFiles, "loss and accuracy of a run, a checkpoint or a file on the test set",
     "rekindle evaluate runs/vgg11 --per-class", make_command<EvaluateCommand>},
    {"import", kFiles, "a .safetensors or .h5 file of another program, checked, as .safetensors, .h5 or .pt",
     "rekindle import weights.h5 weights.safetensors", make_command<ImportCommand>},
    {"make-data", kFiles, "write a data set of synthetic images or text", "rekindle make-data cifar10 data",
     make_command<MakeDataCommand>},
    {"selftest", kChecking, "whether this installation keeps its promises on this machine, in two minutes",
     "rekindle selftest", make_command<SelftestCommand>},
    {"completion", kOther, "what bash, zsh or fish needs to complete this command line",
     "source <(rekindle completion bash)", make_command<CompletionCommand>},
};

}  // namespace

std::span<const CommandRow> file_commands() { return kCommands; }

}  // namespace rekindle::app
