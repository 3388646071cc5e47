#!/bin/sh
# read_tensorboard.py with a Python that has tensorboard: the one that REKINDLE_ORACLE_PYTHON names, or python3.
exec "${REKINDLE_ORACLE_PYTHON:-python3}" "$(dirname "$0")/read_tensorboard.py" "$@"
