#include <CLI/CLI.hpp>
#include <string>

#include "app/command.hpp"
#include "app/ranges.hpp"
#include "app/report.hpp"
#include "app/views.hpp"
#include "base/duration.hpp"

namespace rekindle::app {
namespace {

struct LogsCommand : Command {
  LogsCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR", run_dir)->required();
    command.add_flag("-f,--follow", options.follow, "show new lines as they come, until Ctrl-C");
    command.add_option("-n,--lines", options.lines, "only the last ones")->transform(from_0());
    command.add_option("--level", options.level, "this one and higher: debug, info, warning, error")
        ->capture_default_str()
        ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  }
  int run() override { return exit_code_of(show_logs(run_dir, options)); }

  std::string run_dir;
  LogsOptions options;
};

struct ListCommand : Command {
  ListCommand(CLI::App& command, const CommandLine&) {
    command.add_option("DIR", folder, "a folder with runs")->capture_default_str();
    command.add_flag("--json", json, "for programs");
  }
  int run() override { return exit_code_of(list_runs(folder, json)); }

  std::string folder = ".";
  bool json = false;
};

struct PlotCommand : Command {
  PlotCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR", run_dir)->required();
    command.add_option("--metric", options.metric, "a number of metrics.jsonl")->capture_default_str();
    command.add_flag("--log", options.logarithmic, "a logarithmic axis");
  }
  int run() override { return exit_code_of(plot_run(run_dir, options)); }

  std::string run_dir;
  PlotOptions options;
};

struct WaitCommand : Command {
  WaitCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR", run_dir)->required();
    command.add_option("--step", options.step, "default: the end of the run")->transform(from_0());
    command.add_option("--timeout", timeout, "with a unit; default: none");
  }
  int run() override {
    if (!timeout.empty()) {
      const auto limit = parse_duration("--timeout", timeout);
      if (!limit) return report(limit.error());
      options.timeout = *limit;
    }
    return exit_code_of(wait_for_run(run_dir, options));
  }

  std::string run_dir, timeout;
  WaitOptions options;
};

struct WatchCommand : Command {
  WatchCommand(CLI::App& command, const CommandLine&) {
    command.add_option("RUN_DIR", run_dir)->required();
    command.add_option(
        "--on-event", options.on_event,
        "a shell command for each event, which it gets on its input as JSON; at most a minute");
    command.add_flag("--from-start", options.from_start, "also what has happened before");
    command.add_option("--of-a-run-after", options.of_a_run_after)->group("");
    // No test waits for a minute.
    command.add_option("--event-limit-s", options.event_limit_s)->check(CLI::PositiveNumber)->group("");
    command.add_flag("--json", options.json, "for programs");
  }
  int run() override { return exit_code_of(watch_run(run_dir, options)); }

  std::string run_dir;
  WatchOptions options;
};

struct BoardCommand : Command {
  BoardCommand(CLI::App& command, const CommandLine&) {
    options.status_port = kBoardPort;
    command.add_option("DIR", folder, "a folder with runs, or a run")->capture_default_str();
    command.add_option("--port", *options.status_port, "0: a free one")
        ->capture_default_str()
        ->transform(port());
    command.add_option("--bind", options.status_bind, "an address of this machine; 0.0.0.0: all")
        ->capture_default_str();
    command.add_option("--allow-host", options.allowed_hosts,
                       "a host name under which browsers may ask for the page: a proxy's");
    command.add_option("--metrics-bind", options.metrics_bind, "serve /metrics at another ADDRESS:PORT, too");
    command.add_option("--metrics-token-file", options.metrics_token_file,
                       "a file with the bearer token that /metrics asks for (default: the page's)");
    command.add_option("--metrics-targets", options.metrics_targets,
                       "a folder with a file by which Prometheus finds --metrics-bind (file_sd_configs)");
    command.add_flag("--metrics-open", options.metrics_open, "serve /metrics to everybody, without a token");
  }
  int run() override { return exit_code_of(serve_board(folder, options)); }

  static constexpr std::uint64_t kBoardPort = 8765;
  std::string folder = ".";
  WatcherOptions options;
};

constexpr CommandRow kCommands[] = {
    {"board", kWatching, "serve a page of all runs below a folder, and their metrics for Prometheus",
     "rekindle board runs --port 8765", make_command<BoardCommand>},
    {"list", kWatching, "the runs below a folder, and how far they are", "rekindle list runs",
     make_command<ListCommand>},
    {"logs", kWatching, "the logs of all processes of a run, by time",
     "rekindle logs runs/vgg11 --follow --level warning", make_command<LogsCommand>},
    {"plot", kWatching, "the loss of a run, drawn on the terminal",
     "rekindle plot runs/vgg11 --metric accuracy", make_command<PlotCommand>},
    {"wait", kWatching, "return when a run has ended, or reached a step",
     "rekindle wait runs/vgg11 --step 1000", make_command<WaitCommand>},
    {"watch", kWatching, "a line for each thing that happens to a run, and a command of your own",
     "rekindle watch runs/vgg11 --on-event 'curl -s --data-binary @- https://example.org/hook'",
     make_command<WatchCommand>},
};

}  // namespace

std::span<const CommandRow> view_commands() { return kCommands; }

}  // namespace rekindle::app
