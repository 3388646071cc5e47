#!/usr/bin/env python3
"""From Slurm's signal to the accepted requeue, on real daemons.

  bench/slurm_requeue.py [--signals 5] [--image-size 224] [--batch-size 8] [--build build/release]

Starts a throw-away Slurm (tools/slurm-cluster; root), submits VGG11 on one node, and sends SIGUSR1 to the batch script at
random moments of a step, once an attempt. Prints for each: from the signal to the commit of the checkpoint (the rest of
the step and the write), and from the commit to the moment when the controller counts the restart (polled every 20
ms). Then the same with --stop-within 1ms: the step is abandoned. Standard library only.
"""
import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
TOOL = SOURCE / "tools" / "slurm-cluster"


def times(path, words):
    """Seconds since the epoch of a log's lines that hold `words`."""
    found = []
    for line in open(path, errors="replace") if path.exists() else []:
        match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z ", line)
        if match and words in line:
            found.append(datetime.fromisoformat(match.group(1) + "+00:00").timestamp())
    return found


def restarts_of(job):
    said = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True).stdout
    found = re.search(r"Restarts=(\d+)", said)
    return int(found.group(1)) if found else 0


def wait_until(condition, what, seconds=300, pause=0.05):
    end = time.time() + seconds
    while not condition():
        if time.time() > end:
            sys.exit(f"slurm_requeue: {what} did not come")
        time.sleep(pause)


def steps(run_dir):
    path = run_dir / "metrics.jsonl"
    return open(path).read().count('"step_ms"') if path.exists() else 0


def measure(options, data, directory, more):
    run_dir = directory / "run"
    rekindle = SOURCE / options.build / "bin" / "rekindle"
    script = directory / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --exclusive --requeue --open-mode=append --signal=B:USR1@30\n"
        f"#SBATCH --output={directory}/out\nexec {rekindle} slurm --run-dir {run_dir} --model vgg11 --data {data} "
        f"--image-size {options.image_size} --batch-size {options.batch_size} --steps 1000000 {more}\n")
    job = subprocess.check_output(["sbatch", "--parsable", script], text=True).strip()
    log = run_dir / "logs" / "coordinator.log"
    rows = []
    for _ in range(options.signals):
        before = steps(run_dir)
        wait_until(lambda: steps(run_dir) >= before + 3, "a step")
        time.sleep(random.uniform(0, 4))
        commits, restarts = len(times(log, "is committed")), restarts_of(job)
        sent = time.time()
        subprocess.check_call(["scancel", "--signal=USR1", "--batch", job])
        wait_until(lambda: restarts_of(job) > restarts, "the requeue", pause=0.02)
        accepted = time.time()
        wait_until(lambda: len(times(log, "is committed")) > commits, "the commit", 5)
        commit = times(log, "is committed")[-1]
        rows.append((commit - sent, accepted - commit))
        print(f"  signal to commit {rows[-1][0]:.2f} s, commit to accepted {rows[-1][1]:.3f} s", flush=True)
    subprocess.check_call(["scancel", job])
    wait_until(lambda: not subprocess.run(["pgrep", "-f", str(run_dir)], capture_output=True).stdout, "the end")
    print(f"  medians: {statistics.median(r[0] for r in rows):.2f} s and {statistics.median(r[1] for r in rows):.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=5)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--build", default="build/release")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rekindle-slurm-bench-") as name:
        home = Path(name)
        data, cluster = home / "data", home / "slurm"
        rekindle = SOURCE / options.build / "bin" / "rekindle"
        subprocess.check_call([rekindle, "make-data", "cifar10", data, "--samples", "1000"], stdout=subprocess.DEVNULL)
        subprocess.check_call([TOOL, "up", cluster])
        os.environ["SLURM_CONF"] = str(cluster / "slurm.conf")
        try:
            for title, more in (("the step is finished", ""), ("the step is given up", "--stop-within 1ms")):
                print(title)
                directory = home / title.replace(" ", "-")
                directory.mkdir()
                measure(options, data, directory, more)
        finally:
            subprocess.check_call([TOOL, "down", cluster])


if __name__ == "__main__":
    main()
