#!/usr/bin/env python3
"""Answers as `rekindle` does, at once, with made-up times. Each run is 10 % slower than the one before, as on a machine that
slows down; a copy of this file that is called `slow` takes twice as long.

$STAND_IN is a folder. Its file `clock` has how many runs there were, and its file `fails_at`, if it is there, after how many
they fail.
"""
import json
import os
import pathlib
import sys

STEP_MS, PEAK_BYTES = 100, 2_000_000_000
command, words = sys.argv[1], sys.argv[2:]
clock = pathlib.Path(os.environ["STAND_IN"]) / "clock"
fails_at = clock.with_name("fails_at")
slow = pathlib.Path(sys.argv[0]).name == "slow"


def value(option):
    return words[words.index(option) + 1]


if command == "--version":
    print("rekindle 0, a stand-in")
elif command == "make-data":
    pathlib.Path(words[1]).touch()
elif command == "local":
    runs = int(clock.read_text()) if clock.exists() else 0
    if fails_at.exists() and runs == int(fails_at.read_text()):
        print("no more", file=sys.stderr)
        sys.exit(70)
    clock.write_text(str(runs + 1))
    step_ms = STEP_MS * 1.1**runs * (2 if slow else 1)
    run_dir = pathlib.Path(value("--run-dir"))
    run_dir.mkdir()
    # The first step is far slower; the line of an evaluation has no time of a step.
    steps = [{"step": i + 1, "step_ms": step_ms * (1 if i else 50)} for i in range(int(value("--steps")))]
    parts = {"data_ms": 1, "compute_ms": step_ms - 4, "exchange_ms": 2, "update_ms": 1}
    lines = [{**step, **parts} for step in steps] + [{"step": len(steps), "test_loss": 1.0}]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
elif command == "status":
    peaks = [PEAK_BYTES // 2, PEAK_BYTES * (2 if slow else 1)]
    print(json.dumps({"trainers": [{"peak_pss_bytes": peak} for peak in peaks]}))
else:
    sys.exit(f"the stand-in has no {command}")
