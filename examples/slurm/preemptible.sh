#!/bin/bash
# A run on nodes that others may take: a partition with PreemptMode=REQUEUE. No time limit of its own is needed.
#   RUN_DIR=... DATA=... sbatch --partition=LOW preemptible.sh [JOB OPTIONS]
# On CPUs each node trains on one core, unless the job has tasks and the run threads: sbatch --ntasks-per-node=4
# --cpus-per-task=8 ..., and --threads 8 among the JOB OPTIONS.
#SBATCH --job-name=rekindle-low
#SBATCH --nodes=1-4
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

# What had not been saved when the nodes went is computed again: a checkpoint every few minutes.
exec "${REKINDLE:-rekindle}" slurm --run-dir "${RUN_DIR:?}" --data "${DATA:?}" --checkpoint-interval 5min "$@"
