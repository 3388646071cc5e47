#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/cifar10 sbatch job.sh [OPTIONS]
#SBATCH --job-name=vgg11-cifar10
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --config vgg11.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
