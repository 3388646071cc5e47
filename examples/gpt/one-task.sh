#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/text sbatch one-task.sh [OPTIONS]
# One task a node, which has all of its GPUs.
#SBATCH --job-name=gpt
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --config gpt.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
