#!/bin/bash
# One task for each GPU, as many sites want it: rekindle starts one worker a node, and as many trainers in it as
# the node has tasks.
#   RUN_DIR=... DATA=... sbatch task-per-gpu.sh [JOB OPTIONS]
#SBATCH --job-name=rekindle-gpus
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=2
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --no-kill

exec "${REKINDLE:-rekindle}" slurm --run-dir "${RUN_DIR:?}" --data "${DATA:?}" "$@"
