#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/cifar10 sbatch by-hand.sh [OPTIONS]
#
# As torchrun is started by hand on each node: the first node trains, and each other node joins. The same two commands
# work in two terminals, without Slurm. job.sh needs neither, and requeues itself at its time limit.
#SBATCH --job-name=vgg11-by-hand
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --signal=USR1@60
#SBATCH --open-mode=append

on_node() { srun --nodes=1 --ntasks=1 --exact --relative="$1" "${REKINDLE:-rekindle}" "${@:2}"; }

on_node 0 local --config vgg11.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" --interface "${INTERFACE:-eth0}" "$@" &
run=$!
for ((node = 1; node < SLURM_NNODES; ++node)); do
  on_node "$node" join "$RUN_DIR" &
done
wait "$run"
exit_code=$?
wait
exit "$exit_code"
