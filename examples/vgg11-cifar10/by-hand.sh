#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/cifar10 sbatch by-hand.sh [OPTIONS]
#
# As torchrun is started by hand on each node: the first node trains, and each other node joins. The same two commands
# work in two terminals, without Slurm. job.sh does all of this by itself.
#SBATCH --job-name=vgg11-by-hand
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append

on_node() { exec srun --nodes=1 --ntasks=1 --relative="$1" "${REKINDLE:-rekindle}" "${@:2}"; }

on_node 0 local --config vgg11.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" --interface "${INTERFACE:-eth0}" "$@" &
run=$!
helpers=()
for ((node = 1; node < SLURM_NNODES; ++node)); do
  on_node "$node" join "$RUN_DIR" &
  helpers+=($!)
done

# At the time limit, the run saves its state; after that, the job is queued again.
time_is_over=no
trap 'time_is_over=yes; kill -USR1 "$run"' USR1
while wait "$run"; exit_code=$?; kill -0 "$run" 2>/dev/null; do :; done
[[ $time_is_over == no || $exit_code != 75 ]] || exec scontrol requeue "$SLURM_JOB_ID"
if ((exit_code > 128)); then # the first node's process was killed: a helper has taken its place
  for helper in "${helpers[@]}"; do
    wait "$helper" && exit_code=0
  done
else
  kill "${helpers[@]}" 2>/dev/null
  wait
fi
exit "$exit_code"
