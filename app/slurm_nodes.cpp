#include "app/slurm_nodes.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "app/container.hpp"
#include "app/enclose.hpp"
#include "app/signals.hpp"
#include "app/slurm_successor.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "slurm/shepherd.hpp"

namespace rekindle::app {
namespace {

// Job options that would also apply to a step: a worker is one task with all of the job's resources on its
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
                                   "SLURM_TRES_BIND",
                                   "SLURM_NTASKS_PER_TRES",
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
                                   "SLURM_TIMELIMIT",
                                   "SLURM_EXPORT_ENV"};  // of sbatch --export=NONE: the worker needs this one
// srun refuses two of these, as they come together if the job was submitted from within another one. Without
// them a step gets the job's memory.
constexpr const char* kMemories[] = {"SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU"};

constexpr std::chrono::seconds kNodeDies{3};  // from the first killed process of a node to the last one
constexpr std::chrono::seconds kStepEnds{2};

}  // namespace

bool SlurmNodes::gone(std::size_t machine) const {
  const auto look = watch_.latest();
  return look && !look->nodes.empty() && !look->nodes.contains(job_.nodes[machine]);
}

Result<Process> SlurmNodes::start(std::size_t machine, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"env"};
  for (const char* shape : kShapes) argv.insert(argv.end(), {"-u", shape});
  if (std::ranges::count_if(kMemories, [](const char* name) { return !environment_variable(name).empty(); }) >
      1)
    for (const char* memory : kMemories) argv.insert(argv.end(), {"-u", memory});
  argv.insert(argv.end(),
              {"srun", "--nodes=1", "--ntasks=1", str("--nodelist=", job_.nodes[machine]), "--overlap",
               "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--job-name=worker"});
  if (machine < job_.environment.cpus.size())
    argv.push_back(str("--cpus-per-task=", job_.environment.cpus[machine]));
  if (const std::uint64_t gpus = job_.environment.gpus_to_ask_for(machine); gpus > 0)
    argv.push_back(str("--gpus-per-node=", gpus));
  const Contained how = contained_worker(options_.job, options_.run_dir);
  argv.insert(argv.end(), how.srun_options.begin(), how.srun_options.end());
  // By path, because the process that Slurm starts inherits no descriptors from this one. That process checks
  // its own location.
  const std::string control = program_path("rekindle-control");
  const bool encloses = !how.program.empty();
  std::vector<std::string> successor;
  if (job_.nodes[machine] != job_.environment.node) successor = {"--successor", successor_text(job_)};
  const auto add = [&argv](const std::vector<std::string>& words) {
    argv.insert(argv.end(), words.begin(), words.end());
  };
  if (encloses) {  // Slurm's commands are not in the container
    add({control, kEnclose});
    add(options_.layout().options());
    add(successor);
    add({"--"});
    add(how.program);
  }
  add({control});
  add(arguments);
  add({encloses ? "--supervised-by-stdin" : "--supervised-by-stdio"});
  if (!encloses) add(successor);
  if (!job_.addresses.empty()) argv.insert(argv.end(), {"--interface", job_.addresses[machine]});
  // srun passes the end of its stdin on to the worker. At SIGHUP, srun would kill the worker, so srun runs in
  // a session of its own.
  REKINDLE_TRY(auto ends, Channel::pair());
  REKINDLE_TRY(auto output, Channel::pair());
  REKINDLE_TRY(Child child,
               spawn(argv, {}, {}, {ends.second.get(), output.second.get(), output.second.get(), true}));
  return Process{std::move(child), std::make_unique<Channel>(std::move(ends.first)), std::move(output.first)};
}

bool SlurmNodes::take_line(std::size_t machine, const Process& srun, const std::string& line) {
  const auto step = step_in(line);
  if (!step) return false;
  steps_[machine] = *step;
  if (slurm::kill_shepherd(srun.child.pid) == 0)
    log_info(str("the srun of step ", *step, ": no shepherd process was found"));
  return true;
}

// A worker whose srun was killed keeps running, cannot be asked to leave, and is replaced: so its step is
// ended. But if srun was killed because all processes of this node are being killed, the workers on the other
// nodes must keep running. So this process ends the step only after a delay that it would then not survive.
Clock::duration SlurmNodes::on_end(std::size_t machine, const ExitStatus& srun) {
  const auto found = steps_.find(machine);
  if (found == steps_.end()) return {};
  const std::string step = steps_.extract(found).mapped();
  const bool failed = !srun.by_signal && srun.code == EXIT_FAILURE;  // srun itself, or the worker's start
  if (!srun.by_signal && !failed) return {};
  std::thread([step] {
    std::this_thread::sleep_for(kNodeDies);
    if (const Status killed = slurm::kill_step(step); !killed) log_info(killed.error().line());
  }).detach();
  return failed ? Clock::duration() : kNodeDies + kStepEnds;
}

bool is_srun_noise(const std::string& line) {
  if (!line.starts_with("srun: ")) return false;
  for (const char* words :
       {"Exited with exit code 75", "Exited with exit code 130", "got SIGCONT", "forcing job termination",
        "Job step aborted: Waiting", "write(shepherd): Broken pipe"}) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace rekindle::app
