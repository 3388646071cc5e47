#!/usr/bin/env python3
"""How long the surviving trainers pause when a trainer is killed, and when a newcomer joins.

  bench/recovery.py [--kills 30] [--image-size 224] [--workers 3] [--exchange shm|tcp] [--python MODEL]

Starts VGG11, or a model of bench/models.py as a Python script, on this machine, kills a random trainer with SIGKILL in
mid-step, waits until its replacement has joined, and starts again. Prints, over all kills: from the kill to the first
micro-batch of the new generation; with a script, to the first forward pass, whose samples have been loaded then; from
the kill to the next completed step, beside the step times; and from the pause for a newcomer to the first micro-batch
afterwards. Standard library only.
"""
import argparse
import glob
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z .*")
FORWARDS = "forwards"  # file
GENERATION = re.compile(r"generation (t\d+\.g\d+)")


def stamp(line):
    """Seconds since the epoch of a log line, or None."""
    match = LINE.match(line)
    return datetime.fromisoformat(match.group(1) + "+00:00").timestamp() if match else None


def events(run_dir, pattern, words):
    """(time, generation) of the log lines that hold `words`, over all files that match `pattern`, in order."""
    found = []
    for name in glob.glob(str(run_dir / "logs" / pattern)):
        for line in open(name, errors="replace"):
            if words in line and stamp(line) is not None:
                generation = GENERATION.search(line)
                found.append((stamp(line), generation.group(1) if generation else ""))
    return sorted(found)


def steps(run_dir):
    try:
        lines = open(run_dir / "metrics.jsonl").read().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}") and "step_ms" in line]


def wait_until(condition, run, seconds=300):
    end = time.time() + seconds
    while not condition():
        if run.poll() is not None or time.time() > end:
            sys.exit("recovery: the run ended or got stuck: see its logs")
        time.sleep(0.01)


def trainers(options, run_dir):
    """Process ids of the trainers that take part."""
    status = subprocess.run([options.program, "status", "--json", str(run_dir)], check=True, capture_output=True)
    return [trainer["pid"] for trainer in json.loads(status.stdout)["trainers"] if trainer["rank"] >= 0]


def show(name, values, unit="s"):
    if not values:
        return
    values = sorted(values)
    p95 = values[min(len(values) - 1, int(0.95 * len(values)))]
    print(f"{name}: median {statistics.median(values):.3f} {unit}, 95 % {p95:.3f} {unit}, "
          f"worst {values[-1]:.3f} {unit}, n = {len(values)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(HERE.parent / "build/release/bin/rekindle"))
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--exchange", default="shm")
    parser.add_argument("--pause", type=float, default=0, help="seconds before each kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", metavar="MODEL", help="a model of bench/models.py, in Python")
    parser.add_argument("--loader-threads", type=int, default=2, help="loader processes of a script")
    options = parser.parse_args()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory(prefix="rekindle-recovery.") as work:
        measure(options, Path(work))


def forwards(work):
    """(process id, seconds since the epoch) of each forward pass of a script, in order."""
    try:
        lines = open(work / FORWARDS).read().splitlines()
    except FileNotFoundError:
        return []
    return [(int(pid), float(when)) for pid, when in (line.split() for line in lines)]


def kill_one(options, work, run):
    """Kills a trainer in mid-step; returns the seconds from the kill to each later event."""
    run_dir = work / "run"

    # Wait until all trainers have completed two steps together.
    def settled():
        done = steps(run_dir)
        return len(done) > 1 and done[-1]["trainers"] == done[-2]["trainers"] == options.workers
    wait_until(settled, run)
    time.sleep(options.pause)
    step = steps(run_dir)[-1]["step_ms"] / 1000
    time.sleep(random.uniform(0.1, 0.9) * step)
    generations = {g for _, g in events(run_dir, "trainer*.log", "micro-batches of step")}
    victim = random.choice(trainers(options, run_dir))
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    # The victim's generation may still finish the step in flight.
    wait_until(lambda: steps(run_dir)[-1]["generation"] not in generations, run)
    found = {"step": step, "to_step": time.time() - killed}
    wait_until(lambda: steps(run_dir)[-1]["trainers"] == options.workers, run)
    found["to_all"] = time.time() - killed
    soon = killed - 0.001  # log times have milliseconds
    losses = [t for t, _ in events(run_dir, "coordinator.log", "was lost") if t >= soon]
    pauses = [t for t, _ in events(run_dir, "trainer*.log", "paused at step") if t >= soon]
    micro_batches = [t for t, g in events(run_dir, "trainer*.log", "micro-batches of step") if g not in generations]
    if losses and pauses and micro_batches:
        found["to_loss"] = min(losses) - killed
        found["to_pause"] = max((t for t in pauses if t <= min(micro_batches) + 0.001), default=min(pauses)) - killed
        found["to_micro_batch"] = min(micro_batches) - killed
        # A newcomer's passes are those of its numeric check.
        survivors = {pid for pid, when in forwards(work) if when < killed} - {victim}
        passes = [when for pid, when in forwards(work) if pid in survivors and when >= min(micro_batches)]
        if passes:
            found["to_forward"] = passes[0] - killed
    return found


def script(options, work):
    """The options of a model in Python."""
    return ["--loader-threads", str(options.loader_threads), str(HERE / "python_script.py"), options.python,
            "--image-size", str(options.image_size), "--forwards", str(work / FORWARDS)]


def built_in(options, work):
    """The options of VGG11 on made data."""
    subprocess.run([options.program, "make-data", "cifar10", str(work / "data"), "--samples", "500"], check=True,
                   stdout=subprocess.DEVNULL)
    return ["--model", "vgg11", "--data", str(work / "data"), "--image-size", str(options.image_size)]


def measure(options, work):
    run_dir = work / "run"
    run = subprocess.Popen(
        [options.program, "local", "--run-dir", str(run_dir), "--workers", str(options.workers),
         "--batch-size", str(options.batch_size), "--micro-batches", str(options.micro_batches), "--steps", "100000",
         "--exchange", options.exchange, "--checkpoint-interval", "10h", *(script if options.python else built_in)(options, work)],
        stdout=subprocess.DEVNULL)
    to_loss, to_pause, to_micro_batch, to_forward, to_step, to_all, step_times, stand_still = ([] for _ in range(8))
    try:
        for kill in range(options.kills):
            found = kill_one(options, work, run)
            step_times.append(found["step"])
            to_step.append(found["to_step"])
            to_all.append(found["to_all"])
            if "to_micro_batch" in found:
                to_loss.append(found["to_loss"])
                to_pause.append(found["to_pause"])
                to_micro_batch.append(found["to_micro_batch"])
            if "to_forward" in found:
                to_forward.append(found["to_forward"])
            print(f"kill {kill + 1}: " + ", ".join(f"{name} {value:.3f} s" for name, value in found.items()), flush=True)
    finally:
        run.send_signal(signal.SIGUSR1)
        run.wait()
    # A join: members pause at a step boundary, the newcomer gets the state, and the next micro-batches begin.
    pauses = events(run_dir, "trainer*.log", "paused at step")
    begins = events(run_dir, "trainer*.log", "micro-batches of step")
    first_micro_batch = {}
    for t, generation in begins:
        first_micro_batch.setdefault(generation, t)
    joins = events(run_dir, "coordinator.log", "of them new")
    for _, generation in joins:
        if generation in first_micro_batch:
            paused = [t for t, _ in pauses if t <= first_micro_batch[generation]]
            together = paused[-(options.workers - 1):]
            if together:
                stand_still.append(first_micro_batch[generation] - min(together))
    show("kill to the coordinator's log line", to_loss)
    show("kill to the last survivor paused", to_pause)
    show("kill to first micro-batch of the next generation", to_micro_batch)
    show("kill to the first forward pass of the next generation", to_forward)
    show("kill to next completed step", to_step)
    show("kill to a completed step of all trainers", to_all)
    show("a step with all trainers", step_times)
    show("standing still for a newcomer (park to first micro-batch)", stand_still)


if __name__ == "__main__":
    main()
