#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/cifar10 sbatch job.sh [OPTIONS]
# On CPUs: sbatch --ntasks-per-node=4 --cpus-per-task=8 job.sh --threads 8 ...; otherwise each node trains on one core.
# On GPUs: sbatch --gpus-per-node=2 --cpus-per-task=16 job.sh --device cuda ...
#SBATCH --job-name=vgg11-cifar10
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --config vgg11.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
