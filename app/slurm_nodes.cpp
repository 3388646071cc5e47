#include "app/slurm_nodes.hpp"

#include "app/slurm_successor.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

// Options of the job that would shape a step, too: a worker is one task, and has all that the job has of its
// node. Source: srun(1), INPUT ENVIRONMENT VARIABLES.
constexpr const char* kShapes[] = {"SLURM_NTASKS",
                                   "SLURM_NPROCS",
                                   "SLURM_NTASKS_PER_NODE",
                                   "SLURM_NTASKS_PER_CORE",
                                   "SLURM_NTASKS_PER_GPU",
                                   "SLURM_NTASKS_PER_SOCKET",
                                   "SLURM_CPUS_PER_TASK",
                                   "SLURM_GPUS_PER_TASK",
                                   "SLURM_TRES_PER_TASK",
                                   "SLURM_CPU_BIND",
                                   "SLURM_GPU_BIND",
                                   "SLURM_DISTRIBUTION",
                                   "SLURM_HINT",
                                   "SLURM_EXACT",
                                   "SLURM_GPUS",
                                   "SLURM_GPUS_PER_NODE",
                                   "SLURM_GPUS_PER_SOCKET",
                                   "SLURM_GRES",
                                   "SLURM_LABELIO",
                                   "SLURM_STDINMODE",
                                   "SLURM_STDOUTMODE",
                                   "SLURM_STDERRMODE",
                                   "SLURM_HOSTFILE",
                                   "SLURM_TIMELIMIT"};

}  // namespace

bool SlurmNodes::gone(std::size_t machine) const {
  const auto look = watch_.latest();
  return look && !look->nodes.empty() && !look->nodes.contains(job_.nodes[machine]);
}

Result<Process> SlurmNodes::start(std::size_t machine, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"env"};
  for (const char* shape : kShapes) argv.insert(argv.end(), {"-u", shape});
  argv.insert(argv.end(),
              {"srun", "--nodes=1", "--ntasks=1", str("--nodelist=", job_.nodes[machine]), "--overlap",
               "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--job-name=worker"});
  if (machine < job_.environment.cpus.size())
    argv.push_back(str("--cpus-per-task=", job_.environment.cpus[machine]));
  // A job of one GPU a task would give this task one.
  if (job_.environment.gpus_per_task > 0 && machine < job_.environment.tasks.size())
    argv.push_back(str("--gpus-per-node=", job_.environment.gpus_per_task * job_.environment.tasks[machine]));
  argv.push_back(program_path("rekindle-control"));
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  argv.push_back("--supervised-by-stdio");
  if (job_.nodes[machine] != job_.environment.node)
    argv.insert(argv.end(), {"--successor", successor_text(job_)});
  if (!job_.addresses.empty()) argv.insert(argv.end(), {"--interface", job_.addresses[machine]});
  // srun passes the end of its stdin on to the worker.
  REKINDLE_TRY(auto ends, Channel::pair());
  REKINDLE_TRY(auto output, Channel::pair());
  REKINDLE_TRY(Child child,
               spawn(argv, {}, {}, {ends.second.get(), output.second.get(), output.second.get()}));
  return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first)), std::move(output.first)};
}

bool is_srun_noise(const std::string& line) {
  if (!line.starts_with("srun: ")) return false;
  for (const char* words : {"Exited with exit code 75", "Exited with exit code 130", "got SIGCONT",
                            "forcing job termination", "Job step aborted: Waiting"}) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace rekindle::app
