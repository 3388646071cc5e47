// The job options of the command line and of --config files, checked and resolved.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "protocol/job.hpp"

namespace CLI {
class App;
}

namespace rekindle::app {

#ifdef REKINDLE_CUDA
inline constexpr bool kCudaBuild = true;
#else
inline constexpr bool kCudaBuild = false;
#endif

struct LocalOptions {
  std::filesystem::path run_dir;
  std::uint64_t workers = 1;
  bool change_lr = false;      // a resumed run may have another learning rate
  std::filesystem::path init;  // where its initial values come from; empty: they are drawn
  bool reset_head = false;     // but for the last layer's
  bool own_trainers = false, own_gather_time = false;  // --trainers-per-worker, --gather-time were given
  std::uint64_t state_bytes = 0;                       // that a checkpoint has; known when the data set is
  std::uint64_t parameters = 0;                        // of the model; likewise
  std::string old_stop;  // stop.json's text, if it was there before this attempt
  protocol::Job job;     // resolved, but for what the data set and the run directory add
};

// Collects the options of a subcommand; resolve() after CLI11 has parsed.
class JobOptions {
 public:
  explicit JobOptions(CLI::App& command);
  ~JobOptions();
  Result<LocalOptions> resolve();

 private:
  Result<LocalOptions> resolve_values();

  struct Raw;
  std::unique_ptr<Raw> raw_;
  CLI::App& command_;
};

// --interface and --port-range, for every command that starts workers; empty: not given.
void add_network_options(CLI::App& command, std::string& interface, std::string& port_range);
// Without --interface: NCCL_SOCKET_IFNAME, then GLOO_SOCKET_IFNAME.
std::string or_from_environment(const std::string& interface);
Status check_network(const std::string& interface, const std::string& port_range);

std::string full_name(const CLI::App& command);  // "rekindle local"

// "unknown option '--bacth-size': did you mean --batch-size?"
Error unknown_option(const CLI::App& command, const std::string& word, bool in_file);

}  // namespace rekindle::app
