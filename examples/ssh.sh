#!/bin/bash
# A run over several machines without Slurm: this one trains, and those whose names are in HOSTS help. RUN_DIR, DATA
# and rekindle have to be in the same places on all of them.
#   RUN_DIR=... DATA=... INTERFACE=eth0 HOSTS="b c" ssh.sh [JOB OPTIONS]
# A helper that is lost costs a step, and so does one that comes back: start this script's ssh line again by hand.
# If this machine is lost, one of the helpers takes its place after 90 s; Ctrl-C there saves and ends the run.
set -euo pipefail
rekindle=${REKINDLE:-rekindle}

place=${RUN_DIR:?}/coordinator.json
before=$(cat "$place" 2>/dev/null || true)  # of an earlier attempt

# Starts a helper as soon as this attempt listens. -n: stdin is ours. ssh keeps an ignored SIGTERM.
help_on() {
  while [ "$(cat "$place" 2>/dev/null)" = "$before" ]; do sleep 1; done
  trap '' TERM
  exec ssh -n "$1" "exec '$rekindle' join '$RUN_DIR' --wait 3min"
}
# Helpers leave when the run has ended; what still waits for its beginning is ended here.
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
for host in ${HOSTS:-}; do help_on "$host" & done
"$rekindle" local --run-dir "$RUN_DIR" --data "${DATA:?}" --interface "${INTERFACE:?}" "$@"
