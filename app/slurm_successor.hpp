// A job that has lost the node of its batch script: a worker on another node sees to it that the state is
// saved and the job comes back.
#pragma once

#include <filesystem>
#include <string>

#include "app/slurm_job.hpp"
#include "base/result.hpp"

namespace rekindle::app {

inline constexpr const char* kSlurmSuccessor = "slurm-successor";  // rekindle's hidden command

// What a worker has to know of the job, as one argument; and back.
std::string successor_text(const SlurmJob& job);
Result<SlurmJob> parse_successor_text(const std::string& text);

// `rekindle slurm-successor RUN_DIR TEXT`, started by a worker: the exit code. kNotNeeded: the job has its
// batch host, was requeued already, or another node's process does the work.
inline constexpr int kNotNeeded = 3;
int run_successor(const std::filesystem::path& run_dir, const std::string& text);

}  // namespace rekindle::app
