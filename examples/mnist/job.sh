#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/mnist sbatch job.sh [OPTIONS]
# On CPUs: sbatch --ntasks-per-node=4 --cpus-per-task=8 job.sh --threads 8 ...; otherwise each node trains on one core.
#SBATCH --job-name=mnist
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=1:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@30
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --config mnist.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
