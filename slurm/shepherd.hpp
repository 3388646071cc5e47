// srun's shepherd. When srun has created its step, srun forks a copy of itself that waits until srun ends. If
// srun ends other than by its own exit, the copy asks Slurm to end the step with SIGKILL. Source:
// _shepherd_spawn() in src/srun/libsrun/srun_job.c of Slurm 22.05; Slurm 26.05 also has this function.
//
// If the processes of a node are killed one after another, a shepherd on that node can outlive its srun for
// a moment. The shepherd then ends the step on another, healthy node of the job.
#pragma once

#include <sys/types.h>

namespace rekindle::slurm {

// Kills the shepherd of an srun whose step runs: the shepherd was forked before the step's tasks were
// started. `pid`: of srun, or of a wrapper script that has started srun. Returns how many processes were
// killed. srun does not notice the kill before its own end. srun then prints "write(shepherd): Broken pipe",
// but its exit code does not change.
int kill_shepherd(pid_t pid);

}  // namespace rekindle::slurm
