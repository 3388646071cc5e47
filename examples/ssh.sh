#!/bin/bash
# A run over several machines without Slurm: this one trains, and those whose names are in HOSTS help. RUN_DIR, DATA
# and rekindle have to be in the same places on all of them.
#   RUN_DIR=... DATA=... INTERFACE=eth0 HOSTS="b c" ssh.sh [JOB OPTIONS]
# A helper that is lost costs a step, and so does one that comes back: start this script's ssh line again by hand.
# If this machine is lost, one of the helpers takes its place after 90 s; Ctrl-C there saves and ends the run.
set -euo pipefail
rekindle=${REKINDLE:-rekindle}

for host in ${HOSTS:-}; do
  # Until the run's directory is there, and then for as long as it takes. -n: stdin is ours.
  ssh -n "$host" "until [ -e '${RUN_DIR:?}/coordinator.json' ]; do sleep 1; done; exec '$rekindle' join '$RUN_DIR'" &
done
# The helpers end with the run.
trap 'wait' EXIT
"$rekindle" local --run-dir "$RUN_DIR" --data "${DATA:?}" --interface "${INTERFACE:?}" "$@"
