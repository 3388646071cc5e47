// The job options of the command line and of --config files, checked and resolved.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/container.hpp"
#include "app/known_names.hpp"
#include "app/option_table.hpp"
#include "app/watchers.hpp"
#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace CLI {
class App;
}

namespace rekindle::app {

// Whether this build can use GPUs: for models in Python, and for models in C++.
extern const bool kCudaScripts, kCudaModels;

// The Python script of a command line (app/script.hpp).
struct Script {
  std::filesystem::path file;                     // empty: none
  std::filesystem::path folder;                   // where it finds its modules: the file may be a copy
  std::vector<std::string> arguments;             // its own
  std::string seed = {};                          // of the command line; empty: the script says
  std::map<std::string, std::string> given = {};  // options that checks of the script depend on
  std::string python = {};                        // the interpreter, a path or a name; empty: the usual one
  Container container = {};                       // of the interpreter
};

// What it says about itself.
struct ScriptDescription {
  std::filesystem::path python;                              // the interpreter that ran it
  std::vector<std::pair<std::string, std::string>> options;  // in its call of rekindle.run()
  checkpoint::StateSpec model = {};                          // parameters and buffers
  std::uint64_t train_samples = 0, test_samples = 0;
  std::vector<std::string> metrics = {};
  bool metrics_known = true;           // false: the loss, which may return more, cannot be computed there
  std::vector<std::string> tied = {};  // as in the job
  bool has_gpu = false;                // on the machine that ran it, its PyTorch and this build can use one
  std::string no_gpu = {};             // its PyTorch can use one, and this is why this build cannot
  std::chrono::milliseconds took{};    // until the call, with data sets and model
  std::string build = {};              // of the package that it has imported; empty: of an earlier version
};

// Runs the script (app/script.hpp).
using AskScript = std::function<Result<ScriptDescription>(const Script& script)>;

struct LocalOptions {
  std::filesystem::path run_dir;
  std::uint64_t run_dir_inode = 0;  // of the directory that was checked; 0: not checked yet
  std::uint64_t workers = 1;
  bool dry_run = false;
  bool change_lr = false;                              // a resumed run may change its learning rate
  std::filesystem::path init;                          // source of the initial values; empty: drawn
  bool reset_head = false;                             // but draw the last layer's values
  bool own_trainers = false, own_gather_time = false;  // --trainers-per-worker, --gather-time were given
  std::uint64_t state_bytes = 0;                       // of a checkpoint; set when the data set is known
  std::uint64_t parameters = 0;                        // of the model; set at the same time
  std::string earlier_data, data_change;               // data::DatasetInfo::earlier_hash and change
  std::string time_limit;                              // when the Slurm job's time is over; empty: never
  WatcherOptions watchers;
  std::string old_stop;                // stop_request_in() when the command began
  std::filesystem::path own_trainer;   // the trainer program named by another program; empty: the package's
  checkpoint::StateSpec script_model;  // parameters and buffers, if a script is trained
  std::string device_note;             // why a machine with a GPU trains on CPUs; empty: nothing to say
  protocol::Job job;                   // resolved, except for fields from the data set and the run directory

  run::Layout layout() const { return run::Layout(run_dir, Trust::kOwn, run_dir_inode); }
};

// The value of option `name` in a --config file, with what is replaced in it.
using ExpandValue = std::function<std::string(const std::string& name, const std::string& value)>;

// Collects the options of a subcommand; call run_dir() and resolve() after CLI11 has parsed.
class JobOptions {
 public:
  explicit JobOptions(CLI::App& command, AskNames ask = {}, Script script = {}, AskScript ask_script = {});
  JobOptions(const JobOptions&) = delete;  // CLI11 has pointers to its fields
  JobOptions& operator=(const JobOptions&) = delete;
  void expand_config(ExpandValue expand) { expand_ = std::move(expand); }
  Result<std::filesystem::path> run_dir();        // empty if it is not given
  Result<std::filesystem::path> given_run_dir();  // the same, but a script is not asked for it
  Result<LocalOptions> resolve();

 private:
  Status read_config();  // once
  void leave_out_replaced();
  void use_dry_run_directory();  // in the child of a dry run
  Status read_script();          // the options in its call of rekindle.run(), once

  RawOptions raw_;
  CLI::App& command_;
  const AskNames ask_;
  const Script script_;
  const AskScript ask_script_;
  ExpandValue expand_;
  std::optional<ScriptDescription> described_;
  bool config_is_read_ = false;
  std::set<std::string> from_file_, from_script_;  // options whose values are from there
};

// The job that the options describe. If an option has a wrong value, the option's name is added to `wrong`,
// so that the error can name the file that set it. `ask` is called for a name that is not built in. With a
// script, the options of C++ models are refused.
Result<LocalOptions> resolve_options(const RawOptions& raw, const AskNames& ask, std::set<std::string>& wrong,
                                     const ScriptDescription* script = nullptr);

// This process has taken so long to open the data, or to run a script. A trainer does the same before it is
// ready, and computes a first micro-batch, on a busier machine: the gather time is three times that at least,
// unless it was given.
void allow_time_to_start(LocalOptions& options, std::chrono::nanoseconds took);

// Whether this machine has a GPU (/dev/nvidia0 or the like).
bool has_gpu();

// What is known of this machine's GPUs.
struct GpuState {
  bool there = has_gpu();
  std::string why_not = {};  // a GPU is there, and this is why it cannot be used
};
struct DeviceChoice {
  std::string device;     // Job::device
  std::string note = {};  // LocalOptions::device_note
};
// `wanted`: of --device. `built`: whether this build can use GPUs.
DeviceChoice choose_device(const std::string& wanted, bool built, const GpuState& gpu);
// That this machine has what --device names. Not checked by resolve_options(), because `submit` may be called
// on a machine without a GPU.
Status check_device(const protocol::Job& job, const GpuState& gpu = {});

// The default of --interface: NCCL_SOCKET_IFNAME, then GLOO_SOCKET_IFNAME.
std::string or_from_environment(const std::string& interface);
Status check_network(const std::string& interface, const std::string& port_range);

std::string full_name(const CLI::App& command);  // "rekindle local"
std::vector<const CLI::App*> commands_of(const CLI::App& program);

// "unknown option '--bacth-size': did you mean --batch-size?"
// `source`: the file that has the key; empty: the command line.
Error unknown_option(const CLI::App& command, const std::string& word, const std::string& source = {});

}  // namespace rekindle::app
