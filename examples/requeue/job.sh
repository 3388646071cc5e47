#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/data sbatch job.sh [OPTIONS]
# On CPUs: sbatch --ntasks-per-node=4 --cpus-per-task=8 job.sh --threads 8 ...; otherwise each node trains on one core.
#SBATCH --job-name=requeue
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@30
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
