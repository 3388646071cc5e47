// For a job that has lost the node of its batch script: a worker on another node saves the state and requeues
// the job.
#pragma once

#include <filesystem>
#include <string>

#include "app/slurm_job.hpp"
#include "base/result.hpp"

namespace rekindle::app {

inline constexpr const char* kSlurmSuccessor = "slurm-successor";  // rekindle's hidden command

// The facts about the job that a worker needs, as one argument, and the inverse.
std::string successor_text(const SlurmJob& job);
Result<SlurmJob> parse_successor_text(const std::string& text);

// `rekindle slurm-successor RUN_DIR INODE TEXT`, started by a worker: returns the exit code. kNotNeeded: the
// job still has its batch host, was requeued already, or another node's process does the work.
inline constexpr int kNotNeeded = 3;
int run_successor(const std::filesystem::path& run_dir, const std::string& inode, const std::string& text);

}  // namespace rekindle::app
