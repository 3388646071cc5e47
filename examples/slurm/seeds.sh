#!/bin/bash
# The same training with several seeds: each task of the array is a run of its own, and requeues only itself.
#   RUN_DIR=... DATA=... sbatch seeds.sh [JOB OPTIONS]
# On CPUs each node trains on one core, unless the job has tasks and the run threads: sbatch --ntasks-per-node=4
# --cpus-per-task=8 ..., and --threads 8 among the JOB OPTIONS.
#SBATCH --job-name=rekindle-seeds
#SBATCH --array=1-4
#SBATCH --nodes=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --output=slurm-%A_%a.out

# rekindle fills in %a; so would the shell with $SLURM_ARRAY_TASK_ID.
exec "${REKINDLE:-rekindle}" slurm --run-dir "${RUN_DIR:?}/seed-%a" --seed %a --data "${DATA:?}" "$@"
