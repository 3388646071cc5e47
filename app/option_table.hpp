// The options of a run, one row each. The row makes the option, its help, its key in a --config file and its
// line in docs/options.md. To add an option: a field in RawOptions, a row here, and its check in
// app/resolve_options.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rekindle::app {

// The options as they were given. A value whose default depends on other options is an std::optional, or an
// empty text, until resolve_options().
struct RawOptions {
  std::string run_dir, config_file,
      model = "vgg11", optimizer, dataset, data, augment, precision = "fp32", device = "auto",
      exchange = "auto", exchange_integrity = "on", checkpoint_interval = "10min",
      trainers_per_worker = "auto", lost_after = "5s", hang_after = "10min", data_wait = "10min", stop_within,
      interface, port_range, init, python, gather_time, schedule = "step", milestones, no_decay, lr_scale,
      model_options, container, container_runtime = "apptainer", container_mounts, status_bind = "127.0.0.1",
      allow_host, best_metric, status_html, metrics_bind, metrics_token_file, metrics_targets, on_event,
      dry_run_in;
  std::uint64_t workers = 1, batch_size = 128, seed = 1, threads = 1, loader_threads = 2, keep = 3,
                checkpoint_every = 0, evaluate_every = 0, lr_step = 30, min_trainers = 1, hash_every = 100,
                warmup_steps = 0, log_interval = 0;
  std::optional<std::uint64_t> micro_batches, steps, epochs, image_size, classes, layers, heads, width,
      context, status_port;
  std::optional<double> lr, momentum, dampening, beta1, beta2, alpha, rho, eps, weight_decay, lr_gamma,
      dropout, ema, clip_norm;
  double label_smoothing = 0;
  bool strict = false, change_lr = false, keep_best = false, reset_head = false, nesterov = false,
       skip_corrupt = false, metrics_open = false, tensorboard = false, dry_run = false;
};

// `--help` shows the essentials, `--help-all` every group.
enum class OptionGroup {
  kEssential,
  kModel,
  kOptimizer,
  kComputing,
  kCheckpoints,
  kFailures,
  kNetwork,
  kWatching,
  kResume
};
const char* title_of(OptionGroup group);

enum class AtResume {
  kFree,        // a resume may have another value
  kMayBeAdded,  // a resume may add it, and it stays
  kChangeLr,    // only with --change-lr
  kNames,       // says which run is meant
  kEqual,       // part of the run's identity: a resume with another value is refused
};

struct OptionRow {
  const char* name;   // without dashes; also the key in a --config file
  const char* value;  // what stands for its value in the help; "" for a flag
  OptionGroup group;
  AtResume at_resume;
  const char* help;
  const char* default_text;  // nullptr: the value in RawOptions; "": there is none to name
  CLI::Option* (*add)(CLI::App& command, RawOptions& raw, const OptionRow& row);
  std::vector<std::string> (*values)() =
      nullptr;  // the names that a table in another module has, for the help
};

std::span<const OptionRow> option_table();
void add_options(CLI::App& command, RawOptions& raw);
// --interface and --port-range of `rekindle join`, by default those of the run; empty: not given.
void add_network_options(CLI::App& command, std::string& interface, std::string& port_range);
// Leaves the essential options in the help of `command`.
void show_essentials(CLI::App& command);
// A text in a cell of a Markdown table.
std::string markdown_cell(std::string text);
// docs/options.md, as it has to be.
std::string options_page();

}  // namespace rekindle::app
