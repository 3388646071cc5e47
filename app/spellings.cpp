#include "app/spellings.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace rekindle::app {

std::string usual_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kAliases{
      {{"learning-rate", "lr"},
       {"wd", "weight-decay"},
       {"gamma", "lr-gamma"},
       {"arch", "model"},
       {"data-dir", "data"},
       {"data-path", "data"},
       {"num-workers", "loader-threads"},
       {"nproc-per-node", "trainers-per-worker"}}};
  for (const auto& [alias, usual] : kAliases) {
    if (name == alias) return std::string(usual);
  }
  return name;
}

std::string other_launchers_option(const std::string& name) {
  const std::string finds = "the processes of a run find each other by the run directory: leave it out";
  const std::string nodes =
      "a run gets nodes from Slurm (rekindle submit ... -- --nodes=N), or by rekindle join on each node";
  const std::string backend = "trainers choose how they exchange gradients: see --exchange";
  const std::string cpu = "give --device cpu";
  const std::array<std::pair<std::string_view, std::string>, 22> kHints{
      {{"gpus",
        "each trainer has one GPU: see --trainers-per-worker, and behind -- sbatch's --gpus-per-node"},
       {"resume", "a run goes on by itself: give the same --run-dir"},
       {"checkpoint", "a run goes on by itself: give the same --run-dir"},
       {"resume-from", "a run goes on by itself: give the same --run-dir"},
       {"resume-from-checkpoint", "a run goes on by itself: give the same --run-dir"},
       {"standalone", "a run with rekindle local needs nothing but this machine: leave it out"},
       {"nnodes", nodes},
       {"num-nodes", nodes},
       {"nodes", nodes},
       {"node-rank", finds},
       {"master-addr", finds},
       {"master-port", finds},
       {"rdzv-backend", finds},
       {"rdzv-endpoint", finds},
       {"rdzv-id", finds},
       {"max-restarts", "faults do not end a run: see docs/running.md"},
       {"test-batch-size", "test samples are evaluated in micro-batches: leave it out"},
       {"save-model",
        "the state is saved in --run-dir, and rekindle export writes its weights: leave it out"},
       {"no-accel", cpu},
       {"no-cuda", cpu},
       {"dist-backend", backend},
       {"backend", backend}}};
  for (const auto& [other, hint] : kHints) {
    if (name == other) return hint;
  }
  return "";
}

void use_usual_names(std::vector<std::string>& arguments) {
  for (std::string& argument : arguments) {
    if (argument == "--") return;
    if (!argument.starts_with("--")) continue;
    const std::size_t end = std::min(argument.find('='), argument.size());
    argument = "--" + usual_name(argument.substr(2, end - 2)) + argument.substr(end);
  }
}

}  // namespace rekindle::app
