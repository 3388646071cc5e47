#!/usr/bin/env python3
"""The cost of a checkpoint for the training steps during its write.

  bench/checkpoint.py [--rounds 3] [--steps 21] [--every 5] [--directory /var/tmp]

VGG11 on this machine, in turns without and with a checkpoint every few steps. Prints the mean step of both; the
median and the longest step of those that follow a checkpoint and of the others; within the runs with checkpoints, each
step compared with the steps around it, which removes the machine's drift; and the peak of a trainer's memory: its
proportional share (PSS) from its own samples, and its resident set (RSS, with shared memory) from the kernel.
Standard library only.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from commands import must

HERE = Path(__file__).resolve().parent


def high_water_marks(run_dir):
    """VmHWM of the run's trainers in bytes, by process. Source: proc(5)."""
    marks = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if Path(os.fsdecode(words[0])).name != "rekindle-trainer" or os.fsencode(run_dir) not in words:
                continue
            for line in (entry / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    marks[entry.name] = int(line.split()[1]) * 1024
        except OSError:
            continue  # the process has ended
    return marks


def run(options, work, every):
    """Step times in ms by step, the first ones left out; the highest memory peaks of a trainer in bytes: PSS, RSS."""
    with tempfile.TemporaryDirectory(dir=work) as directory:
        run_dir, log = Path(directory) / "run", Path(directory) / "log"
        with log.open("w") as said:
            training = subprocess.Popen(
                [options.program, "local", "--run-dir", run_dir, "--model", "vgg11", "--data", work / "data",
                 "--workers", str(options.workers), "--micro-batches", str(options.workers),
                 "--batch-size", str(options.images * options.workers), "--image-size", str(options.image_size),
                 "--steps", str(options.steps), "--exchange", "shm", "--checkpoint-interval", "24h",
                 "--checkpoint-every", str(every), "--keep", "2"], stdout=said, stderr=said)
        marks = {}
        while training.poll() is None:
            marks.update(high_water_marks(run_dir))
            time.sleep(1)
        if training.returncode != 0:
            sys.exit(f"rekindle ended with {training.returncode}: {log.read_text()[-2000:]}")
        lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        status = json.loads(must([options.program, "status", run_dir, "--json"]))
    steps = {line["step"]: line["step_ms"] for line in lines if "step_ms" in line and line["step"] > options.drop}
    return steps, (max(trainer["peak_pss_bytes"] for trainer in status["trainers"]), max(marks.values()))


def added(steps, every):
    """The relative extra time of steps whose update hashes the state for a checkpoint (key 0) and of steps during which
    the checkpoint is written (key 1), against the median of the nearby steps without checkpoint work."""
    more = {0: [], 1: []}
    for step, ms in steps.items():
        around = [other for near, other in steps.items() if near % every > 1 and abs(near - step) < every]
        if step % every <= 1 and around:
            more[step % every].append(ms / statistics.median(around) - 1)
    return more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(HERE.parent / "build/release/bin/rekindle"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=21)
    parser.add_argument("--drop", type=int, default=1, help="first steps of a turn that do not count")
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, default=4, help="images a trainer and step")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--directory", default="/var/tmp", help="where the runs are, and so their checkpoints")
    options = parser.parse_args()
    without, beside, after, far = [], [], [], []
    more = {0: [], 1: []}
    peaks = {False: (0, 0), True: (0, 0)}
    with tempfile.TemporaryDirectory(prefix="rekindle-bench.", dir=options.directory) as directory:
        work = Path(directory)
        # The data set has more images than the run uses, so no evaluation runs between two timed steps.
        images = options.images * options.workers * (options.steps + 1)
        must([options.program, "make-data", "cifar10", work / "data", "--samples", str(5 * (images // 5 + 1))])
        for turn in range(1, options.rounds + 1):
            quiet, peak = run(options, work, 0)
            peaks[False] = tuple(map(max, peaks[False], peak))
            busy, peak = run(options, work, options.every)
            peaks[True] = tuple(map(max, peaks[True], peak))
            without += quiet.values()
            # A checkpoint of step s is read and written during step s + 1, so the checkpoint of the last step
            # is not measured.
            after += [ms for step, ms in busy.items() if (step - 1) % options.every == 0]
            far += [ms for step, ms in busy.items() if step % options.every > 1]
            beside += busy.values()
            for place, parts in added(busy, options.every).items():
                more[place] += parts
            print(f"round {turn}: without {statistics.mean(quiet.values()) / 1000:.3f} s, "
                  f"with {statistics.mean(busy.values()) / 1000:.3f} s", flush=True)
    mean, median = statistics.mean(without), statistics.median(without)
    print(f"mean step without {mean / 1000:.3f} s, with one every {options.every} steps "
          f"{statistics.mean(beside) / 1000:.3f} s: {100 * (statistics.mean(beside) / mean - 1):+.1f} %")
    print(f"median step without {median / 1000:.3f} s, of those that follow a checkpoint "
          f"{statistics.median(after) / 1000:.3f} s: {100 * (statistics.median(after) / median - 1):+.1f} %")
    others = max(without)
    print(f"longest step without {others / 1000:.3f} s, of those that follow a checkpoint {max(after) / 1000:.3f} s: "
          f"{100 * (max(after) / others - 1):+.1f} %, {100 * (max(after) / median - 1):+.1f} % of the median step")
    print(f"median step without checkpoint work in the runs with checkpoints {statistics.median(far) / 1000:.3f} s: "
          f"{100 * (statistics.median(far) / median - 1):+.1f} %: the drift of the machine between turns")
    hashed, written = (100 * statistics.median(more[place]) for place in (0, 1))
    print(f"against the steps around it, medians of {len(more[1])}: the step during a write {written:+.1f} %, the "
          f"one that hashes the state {hashed:+.1f} %, so the mean step {(hashed + written) / options.every:+.1f} %")
    for kind, name in enumerate(("share (PSS), sampled", "resident set (RSS), the kernel's peak")):
        print(f"memory of a trainer, {name}, GB: without {peaks[False][kind] / 1e9:.2f}, "
              f"with {peaks[True][kind] / 1e9:.2f}")


if __name__ == "__main__":
    main()
