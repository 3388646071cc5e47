#!/bin/bash
# RUN_DIR=/shared/run DATA=/shared/text sbatch task-per-gpu.sh [OPTIONS]
# One task for each GPU.
#SBATCH --job-name=gpt
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=2
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --config gpt.toml --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
