#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/tiny-imagenet-200 sbatch job.sh [OPTIONS]
# One node with four GPUs. Several nodes: sbatch --nodes=4 job.sh.
#SBATCH --job-name=tiny-imagenet
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --config resnet18.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
