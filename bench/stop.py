#!/usr/bin/env python3
"""From SIGUSR1 to a committed checkpoint.

  bench/stop.py [--rounds 8] [--image-size 224] [--workers 2]

Starts VGG11 on this machine, sends SIGUSR1 at a random moment of a step, waits until the run has left, and starts it
again; in turns without --stop-within, and with one that is shorter than any step. Prints for each stop: from the signal
until the last trainer began to write (the rest of the step, or its abandonment), from there to the commit (the write), and
the sum. Standard library only.
"""
import argparse
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from commands import must
from recovery import events, steps, wait_until

HERE = Path(__file__).resolve().parent


def stop_once(options, work, more):
    """Stops one attempt in mid-step. Returns the seconds until the write began and the seconds of the write."""
    run_dir, log = work / "run", work / "log"
    before = len(steps(run_dir))
    with log.open("w") as output:
        run = subprocess.Popen(
            [options.program, "local", "--run-dir", run_dir, "--model", "vgg11", "--data", work / "data",
             "--workers", str(options.workers), "--micro-batches", str(options.workers),
             "--batch-size", str(options.images * options.workers), "--image-size", str(options.image_size),
             "--steps", "1000000", "--checkpoint-interval", "24h", *more], stdout=output, stderr=output)
    wait_until(lambda: len(steps(run_dir)) >= before + 2, run)
    time.sleep(random.random() * steps(run_dir)[-1]["step_ms"] / 1000)
    sent = time.time()
    run.send_signal(signal.SIGUSR1)
    if run.wait() != 75:
        sys.exit(f"stop: rekindle ended with {run.returncode}: {log.read_text()[-2000:]}")
    since = sent - 0.001  # log times have milliseconds
    began = max(t for t, _ in events(run_dir, "trainer*.log", "is written before this trainer pauses") if t >= since)
    committed = max(t for t, _ in events(run_dir, "coordinator.log", "is committed"))
    return began - sent, committed - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(HERE.parent / "build/release/bin/rekindle"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, default=8, help="images a trainer and step")
    parser.add_argument("--image-size", type=int, default=224)
    options = parser.parse_args()
    kinds = {"the step is finished": [], "the step is abandoned": ["--stop-within", "1ms"]}
    rows = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="rekindle-bench.", dir="/var/tmp") as directory:
        work = Path(directory)
        must([options.program, "make-data", "cifar10", work / "data", "--samples", "5000"])
        for _ in range(options.rounds):
            for kind, more in kinds.items():
                rest, write = stop_once(options, work, more)
                rows[kind].append((rest, write))
                print(f"{kind}: {rest:.2f} s until the write, {write:.2f} s of write, {rest + write:.2f} s in all",
                      flush=True)
        times = [line["step_ms"] / 1000 for line in steps(work / "run")]
    print(f"step: median {statistics.median(times):.2f} s, longest {max(times):.2f} s")
    for kind, found in rows.items():
        for name, values in (("until the write", [row[0] for row in found]), ("write", [row[1] for row in found]),
                             ("in all", [sum(row) for row in found])):
            print(f"{kind}, {name}: median {statistics.median(values):.2f} s, longest {max(values):.2f} s")


if __name__ == "__main__":
    main()
