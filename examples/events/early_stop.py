#!/usr/bin/env python3
"""Stops a run whose test loss has not become lower in its last evaluations.

    rekindle watch RUN_DIR --on-event 'early_stop.py 5'        # or the same option of the run itself

The state is saved, and the run ends with 75. `$REKINDLE` names the program, if it is not on PATH.
"""

import json
import os
import pathlib
import subprocess
import sys


def main():
    patience, event = int(sys.argv[1]), json.load(sys.stdin)
    if event["event"] != "evaluated":
        return 0
    losses = {}  # by step: a step that was made again has the same bits
    for line in (pathlib.Path(event["run"]) / "metrics.jsonl").read_text().splitlines():
        values = json.loads(line)
        if values.get("test_loss") is not None:
            losses[values["step"]] = values["test_loss"]
    all_losses = [losses[step] for step in sorted(losses)]
    if len(all_losses) <= patience or min(all_losses[-patience:]) < min(all_losses[:-patience]):
        return 0
    return subprocess.run([os.environ.get("REKINDLE", "rekindle"), "stop", event["run"]]).returncode


if __name__ == "__main__":
    sys.exit(main())
