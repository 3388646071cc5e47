#include "app/options.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/spellings.hpp"
#include "base/duration.hpp"
#include "base/nearest.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"

namespace rekindle::app {

JobOptions::JobOptions(CLI::App& command, AskNames ask, Script script, AskScript ask_script)
    : command_(command),
      ask_(std::move(ask)),
      script_(std::move(script)),
      ask_script_(std::move(ask_script)) {
  command.allow_extras();
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as argparse does
  add_options(command, raw_);
}

namespace {

// The variable that is the default of --interface; empty: none is set.
std::string interface_variable() {
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    if (!environment_variable(name).empty()) return name;
  }
  return "";
}

}  // namespace

std::string or_from_environment(const std::string& interface) {
  const std::string variable = interface_variable();
  return interface.empty() && !variable.empty() ? environment_variable(variable.c_str()) : interface;
}

Status check_network(const std::string& interface, const std::string& port_range) {
  if (const auto address = choose_address(interfaces(), interface); !address) {
    const std::string variable = interface_variable();
    const bool from_variable = !variable.empty() && environment_variable(variable.c_str()) == interface;
    const Error& error = address.error();
    return fail(error.code, error.what,
                from_variable ? str(error.hint, ", the default of which is ", variable) : error.hint);
  }
  REKINDLE_CHECK(parse_port_range(port_range));
  return {};
}

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App*) { return true; });
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? "rekindle" : "rekindle " + command.get_name();
}

namespace {
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

// Of the call of rekindle.run() in a script, where options have underscores.
Error unknown_argument(const CLI::App& command, std::string word) {
  std::vector<std::string> names = option_names(command);
  std::erase_if(names, [](const std::string& name) { return name == "config" || name.starts_with("help"); });
  names.insert(names.end(),
               {"learning-rate", "loss", "train-data", "test-data", "metrics", "collate", "test-collate"});
  std::string near = nearest_name(usual_name(word), names);
  if (!near.empty()) near = usual_name(near);
  for (std::string* name : {&word, &near}) std::ranges::replace(*name, '-', '_');
  return {ExitCode::kUsage, str("run() has no argument ", word),
          near.empty() ? "help(rekindle.run) describes what it has" : str("did you mean ", near, "?")};
}
}  // namespace

Error unknown_option(const CLI::App& command, const std::string& word, const std::string& source) {
  const std::vector<std::string> names = option_names(command);
  const std::size_t dashes = word.find_first_not_of('-');
  const std::string bare = dashes == std::string::npos ? word : word.substr(dashes, word.find('=') - dashes);
  const std::string near = nearest_name(bare, names), all = str("see ", full_name(command), " --help");
  if (!source.empty())
    return {ExitCode::kConfig, str("unknown key '", word, "' in ", source),
            near.empty() ? all : str("did you mean ", near, "?")};
  if (!word.starts_with("-")) return {ExitCode::kUsage, str("'", word, "' belongs to no option"), all};
  const std::string other = other_launchers_option(bare);
  return {ExitCode::kUsage, str("unknown option '", word, "'"),
          !other.empty() ? other
          : near.empty() ? all
                         : str("did you mean --", near, "?")};
}

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// Takes values from a source, a file or a script, for options that neither the command line nor an earlier
// source sets.
Status apply(CLI::App& command, const Entries& entries, const std::string& source, bool is_script,
             std::set<std::string>& applied) {
  // A length on the command line replaces the source's, whichever of the two options it is.
  const bool has_length = command.count("--steps") + command.count("--epochs") > 0;
  std::map<std::string, std::string> seen;  // as written, by the usual name
  for (const auto& [written, value] : entries) {
    const std::string key = usual_name(written);
    CLI::Option* option = command.get_option_no_throw("--" + key);
    if (key == "config")
      return fail(ExitCode::kConfig, str("'config' in ", source, ": one file has all options"));
    if (option == nullptr || key.starts_with("help"))
      return forward_error(is_script ? unknown_argument(command, written)
                                     : unknown_option(command, written, source));
    if (const auto& [earlier, is_new] = seen.try_emplace(key, written); !is_new)
      return fail(ExitCode::kConfig,
                  str("'", earlier->second, "' and '", written, "' in ", source, " are the same option"));
    if (option->count() > 0 || (has_length && (key == "steps" || key == "epochs"))) continue;
    try {
      if (option->get_items_expected_max() == 0) {  // a flag
        if (value != "true" && value != "false")
          return fail(ExitCode::kConfig, str("'", key, "' in ", source, " is neither true nor false"));
        if (value == "false") continue;
        option->add_result("true");
      } else {
        option->add_result(value);
      }
      option->run_callback();
      applied.insert(key);
    } catch (const CLI::Error& error) {
      return fail(ExitCode::kConfig, str(source, ": ", error.what()));
    }
  }
  return {};
}

}  // namespace

Status JobOptions::read_config() {
  for (const std::string& extra : command_.remaining()) return forward_error(unknown_option(command_, extra));
  if (command_.count("--config") > 1)
    return fail(ExitCode::kUsage, "--config is given twice", "one file has all options");
  if (std::exchange(config_is_read_, true) || raw_.config_file.empty()) return {};
  REKINDLE_TRY(Entries entries, read_config_file(raw_.config_file));
  if (expand_)
    for (auto& [name, value] : entries) value = expand_(usual_name(name), value);
  return apply(command_, entries, raw_.config_file, false, from_file_);
}

Status JobOptions::read_script() {
  if (command_.get_name() == "local")
    REKINDLE_CHECK(check_no_srun({raw_.container, raw_.container_runtime}, command_.get_name()));
  if (script_.file.empty() || described_) return {};
  Script script = script_;
  script.python = raw_.python;
  if (command_.count("--seed") > 0) script.seed = str(raw_.seed);
  for (const char* name : {"steps", "epochs", "batch-size", "micro-batches", "schedule"}) {
    const std::string option = std::string("--") + name;
    if (command_.count(option) > 0) script.given[name] = command_[option]->as<std::string>();
  }
  const auto began = std::chrono::steady_clock::now();
  script.container = whole_container(raw_.container, raw_.container_runtime, raw_.container_mounts);
  REKINDLE_TRY(described_, ask_script_(script));
  described_->took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  for (const auto& [name, value] : described_->options)
    if (name.starts_with("container"))
      return fail(ExitCode::kUsage, str(script_.file.string(), ": ", name, " in the call of rekindle.run()"),
                  "the script itself runs in the container: give it on the command line, as --" + name);
  // The same script trains on one machine, with so many workers, and in a job, which has one a node.
  if (command_.get_name() != "local")
    std::erase_if(described_->options, [](const auto& option) { return option.first == "workers"; });
  leave_out_replaced();
  return apply(command_, described_->options, script_.file.string(), true, from_script_);
}

// Another optimizer or schedule on the command line: the script's options are for its own, its rate too.
void JobOptions::leave_out_replaced() {
  const auto is_replaced = [this](const char* kind) {
    const auto own =
        std::ranges::find(described_->options, kind, &std::pair<std::string, std::string>::first);
    const std::string given = std::string("--") + kind;
    return command_.count(given) > 0 && own != described_->options.end() &&
           own->second != command_[given]->as<std::string>();
  };
  std::set<std::string> of_optimizers = {"lr", "weight-decay"};
  for (const optim::Row& row : optim::optimizers())
    for (const std::string& name : optim::option_names(row)) of_optimizers.insert(usual_name(name));
  const auto of_schedules = [](const std::string& name) {
    return std::ranges::any_of(optim::schedules(), [&name](const optim::ScheduleRow& row) {
      return optim::schedule_has(row.name, "--" + name);
    });
  };
  const bool optimizer = is_replaced("optimizer"), schedule = is_replaced("schedule");
  std::erase_if(described_->options, [&](const auto& option) {
    return (optimizer && of_optimizers.contains(option.first)) || (schedule && of_schedules(option.first));
  });
}

void JobOptions::use_dry_run_directory() {
  if (raw_.dry_run_in.empty()) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would end it
  raw_.run_dir = raw_.dry_run_in;
  raw_.dry_run = false;
}

Result<std::filesystem::path> JobOptions::given_run_dir() {
  use_dry_run_directory();
  if (raw_.run_dir.empty()) REKINDLE_CHECK(read_config());  // its storage may hang
  if (raw_.run_dir.empty()) return std::filesystem::path();
  return std::filesystem::absolute(raw_.run_dir).lexically_normal();
}

Result<std::filesystem::path> JobOptions::run_dir() {
  REKINDLE_CHECK(read_config());
  REKINDLE_TRY(const std::filesystem::path given, given_run_dir());
  if (!given.empty()) return given;
  REKINDLE_CHECK(read_script());  // takes seconds
  return given_run_dir();
}

Result<LocalOptions> JobOptions::resolve() {
  REKINDLE_CHECK(read_config());
  REKINDLE_CHECK(read_script());
  use_dry_run_directory();
  std::set<std::string> wrong;
  auto options = resolve_options(raw_, ask_, wrong, described_ ? &*described_ : nullptr);
  const std::pair<const std::set<std::string>&, std::string> sources[] = {
      {from_file_, raw_.config_file}, {from_script_, script_.file.string()}};
  const auto is_from = [&wrong](const std::set<std::string>& source) {
    return std::ranges::any_of(wrong, [&source](const std::string& each) { return source.contains(each); });
  };
  for (const auto& [from, name] : sources) {
    if (!options && is_from(from))
      return fail(ExitCode::kConfig, str(name, ": ", options.error().what), options.error().hint);
  }
  if (!options) return options;
  const bool elsewhere = command_.get_name() == "submit";
  if (!elsewhere) {
    GpuState gpu;  // WSL has no /dev/nvidia0: the script's PyTorch knows better
    if (described_) gpu = {gpu.there || described_->has_gpu, described_->no_gpu};
    REKINDLE_CHECK(check_device(options->job, gpu));
    REKINDLE_CHECK(check_network(options->job.interface, ""));
    if (!options->device_note.empty()) say(options->device_note);
  }
  if (described_) {
    allow_time_to_start(*options, described_->took);
    options->script_model = described_->model;
    options->job.task.script = script_.file;
    options->job.task.script_folder = script_.folder;
    options->job.task.script_started_in = std::filesystem::current_path();
    options->job.task.script_arguments = script_.arguments;
  }
  if (!elsewhere) REKINDLE_CHECK(check_container(container_of(options->job), options->run_dir, options->job));
  return options;
}

void allow_time_to_start(LocalOptions& options, std::chrono::nanoseconds took) {
  if (options.own_gather_time) return;
  const auto ready = 3 * std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  options.job.gather_time_ms = std::max(options.job.gather_time_ms, static_cast<std::uint64_t>(ready));
}

}  // namespace rekindle::app
