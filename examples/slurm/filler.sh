#!/bin/bash
# Helpers for a run that another job keeps alive (time-limit.sh): one-node jobs on nodes that are free just now.
# They come, are preempted and come back; the run goes on with whoever is there, and its bits stay the same.
#   RUN_DIR=... sbatch --partition=LOW filler.sh       as often as you like
#SBATCH --job-name=rekindle-filler
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@30
#SBATCH --open-mode=append

# When the run is away (requeued itself), they wait for it for a while, and end then.
exec "${REKINDLE:-rekindle}" join "${RUN_DIR:?}" --wait 15min
