// sbatch's own options. Pure. Source: sbatch(1) of Slurm 22.05 to 24.05.
#pragma once

#include <string>
#include <vector>

namespace rekindle::slurm {

// Moves sbatch's options, with their values, out of the words of a command line, in case the user forgot the
// `--`. No option of rekindle has the same name as an option of sbatch.
std::vector<std::string> take_sbatch_options(std::vector<std::string>& words);

// Whether sbatch's options ask for GPUs.
bool asks_for_gpus(const std::vector<std::string>& options);

// Whether they ask for a complete node, or for more than four CPUs, and for no tasks. There is one trainer on
// each node then, which uses one CPU unless --threads is given.
bool asks_for_cpus_alone(const std::vector<std::string>& options);

}  // namespace rekindle::slurm
