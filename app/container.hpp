// The container in which a job's workers and trainers run (--container): one on each node, for all of the
// node's processes.
//
// The supervisor, the coordinator and Slurm's commands stay outside: a batch script runs where scontrol is.
// The programs inside are those outside, at the same path: an image needs no program of this project, and
// one of another build in it is never started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/job.hpp"

namespace rekindle::app {

struct Container {
  std::string image;  // empty: no container
  std::string runtime = "apptainer", mounts = {};
};
Container container_of(const protocol::Job& job);

void set_container(protocol::Job& job, const Container& container);
// From the options: files and folders get their whole paths.
Container whole_container(const std::string& image, const std::string& runtime, const std::string& mounts);
// An error: there is no such image, or no program that starts it; a path that cannot be mounted; an unknown
// runtime (ExitCode::kUsage).
Status check_container(const Container& container, const std::filesystem::path& run_dir,
                       const protocol::Job& job);

// An error: the containers are srun's, which `command` cannot start outside of the batch job of its run.
Status check_no_srun(const Container& container, const std::string& command);
// Starts a program of this build in the container and waits for its end: otherwise an image that does not
// start, whose C library is too old for the programs, or that has other programs in their place, would be
// noticed only after --gather-time.
Status try_container(const protocol::Job& job, const std::filesystem::path& run_dir);

// How a command is started in a container: `program` COMMAND..., where `program` is empty without a
// container. With the runtime srun, the options of srun. Visible, besides `visible`: the current folder, and
// the programs and the Python package of this process.
struct Contained {
  std::vector<std::string> program, srun_options;
  bool is_any() const { return !program.empty() || !srun_options.empty(); }
};
Contained contained(const Container& container, const std::vector<std::filesystem::path>& visible, bool gpus);
// `program` without what this machine does not have of the folders to mount, which the runtime would refuse:
// of the current folder and the script's, other nodes need none.
std::vector<std::string> without_missing_mounts(std::vector<std::string> program);
// A worker of a job.
Contained contained_worker(const protocol::Job& job, const std::filesystem::path& run_dir);

}  // namespace rekindle::app
