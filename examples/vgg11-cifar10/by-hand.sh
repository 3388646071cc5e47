#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/cifar10 sbatch by-hand.sh [OPTIONS]
#
# As torchrun is started by hand on each node: the first node trains, and each other node joins. The same two commands
# work in two terminals, without Slurm. job.sh does all of this by itself. INTERFACE is the network between the nodes:
# eth0 unless it is set.
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

# At the time limit, the run saves its state; after that, the job is queued again. If the first node's process is dead,
# a helper has taken its place: the run is stopped through its directory.
time_is_over=no
save() {
  time_is_over=yes
  interrupted=yes
  kill -USR1 "$run" 2>/dev/null || "${REKINDLE:-rekindle}" stop "$RUN_DIR"
}
trap save USR1
await() { # sets exit_code; the signal only interrupts the wait
  while
    interrupted=no
    wait "$1"
    exit_code=$?
    [[ $interrupted == yes && $exit_code == 138 ]]
  do :; done
}

await "$run"
if ((exit_code > 128)); then # the first node's process was killed
  ends=()
  for helper in "${helpers[@]}"; do
    await "$helper"
    ends+=("$exit_code")
  done
  for code in 0 75; do # 75: the helper in its place has saved the state; the others end with 0
    [[ " ${ends[*]} " != *" $code "* ]] || exit_code=$code
  done
fi
[[ $time_is_over == no || $exit_code != 75 ]] || exec scontrol requeue "$SLURM_JOB_ID"
kill "${helpers[@]}" 2>/dev/null
wait
exit "$exit_code"
