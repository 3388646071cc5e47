// sbatch's own options. Pure. Source: sbatch(1) of Slurm 22.05 to 24.05.
#pragma once

#include <string>
#include <vector>

namespace rekindle::slurm {

// Takes sbatch's options, with their values, out of the words of a command line. For a `--` that was
// forgotten. No option of rekindle has the name of one of them.
std::vector<std::string> take_sbatch_options(std::vector<std::string>& words);

// Whether sbatch's options ask for GPUs.
bool asks_for_gpus(const std::vector<std::string>& options);

}  // namespace rekindle::slurm
