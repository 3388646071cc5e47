#!/bin/bash
# A run that is longer than the partition's time limit: saved before the limit, requeued, and on it goes.
#   RUN_DIR=... DATA=... sbatch time-limit.sh [JOB OPTIONS]
# On CPUs each node trains on one core, unless the job has tasks and the run threads: sbatch --ntasks-per-node=4
# --cpus-per-task=8 ..., and --threads 8 among the JOB OPTIONS.
#SBATCH --job-name=rekindle
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
