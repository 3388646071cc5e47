#!/usr/bin/env python3
"""How long torchrun needs from the death of a worker to the first forward pass of the restarted group.

  REKINDLE_BENCH_PYTHON=/venv/bin/python bench/torchrun_restart.py [--kills 5] [--image-size 224] [--workers 3]

The measurement of bench/recovery.py for PyTorch: VGG11 with DistributedDataParallel over Gloo under torchrun with
--max-restarts, on this machine; a random worker gets SIGKILL in mid-step; torchrun ends the others and starts all
of them again. Prints the times from the kill to the first forward pass and to the first completed step. The steps
since the last checkpoint, which the restarted group must repeat, are not in these times. Needs torch and
torchvision.
"""
import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def work(options):
    """A worker: writes one log line at the begin of each forward pass and at the end of each step."""
    import torch
    import torch.distributed as dist
    import torchvision

    torch.set_num_threads(1)
    torch.manual_seed(1)
    # Each group has a store of its own, so that leftovers of the last group do no harm.
    store = f"file://{options.log}.store{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    dist.init_process_group("gloo", init_method=store, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    model = torch.nn.parallel.DistributedDataParallel(torchvision.models.vgg11(num_classes=10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-4)
    criterion = torch.nn.CrossEntropyLoss()
    images = torch.randn(options.images, 3, options.image_size, options.image_size)
    labels = torch.randint(10, (options.images,))
    # One write per line, because the workers share the file.
    log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    while True:
        os.write(log, f"forward {start} {os.getpid()} {time.time()}\n".encode())
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
        os.write(log, f"step {start} {os.getpid()} {time.time()}\n".encode())


def lines(log, word, starts):
    """(time, process) of the lines of `word` that groups whose restart count is in `starts` wrote."""
    try:
        words = [line.split() for line in open(log)]
    except FileNotFoundError:
        return []
    return [(float(line[3]), int(line[2])) for line in words if line[0] == word and int(line[1]) in starts]


def newest_start(log):
    return max((int(line.split()[1]) for line in open(log)), default=0) if os.path.exists(log) else 0


def wait_for(condition, run):
    while not condition():
        if run.poll() is not None:
            sys.exit("torchrun_restart: torchrun ended")
        time.sleep(0.02)


def measure(options, log):
    python = os.environ.get("REKINDLE_BENCH_PYTHON", sys.executable)
    run = subprocess.Popen(
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.workers),
         "--max-restarts", str(20 * options.kills), "--monitor-interval", "0.1", "--no-python", python, __file__,
         "--worker-log", str(log), "--images", str(options.images), "--image-size", str(options.image_size)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    to_forward, to_step = [], []
    try:
        for kill in range(options.kills):
            wait_for(lambda: len(lines(log, "step", {newest_start(log)})) >= 2 * options.workers, run)
            start = newest_start(log)
            made = sorted(t for t, _ in lines(log, "step", {start}))
            step = made[-1] - made[-1 - options.workers]
            time.sleep(random.uniform(0.1, 0.9) * step)
            victim = random.choice([pid for _, pid in lines(log, "forward", {start})])
            killed = time.time()
            os.kill(victim, signal.SIGKILL)
            # Sometimes a restarted group fails before its first step, and torchrun starts the next group.
            later = range(start + 1, start + 100)
            wait_for(lambda: lines(log, "step", later), run)
            first_step = min(lines(log, "step", later))[0]
            to_step.append(first_step - killed)
            to_forward.append(min(t for t, _ in lines(log, "forward", {newest_start(log)})) - killed)
            print(f"kill {kill + 1}: a step {step:.3f} s, forward after {to_forward[-1]:.3f} s, "
                  f"step after {to_step[-1]:.3f} s", flush=True)
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()
    for name, values in (("first forward pass", to_forward), ("first completed step", to_step)):
        print(f"torchrun, kill to the {name}: median {statistics.median(values):.3f} s, worst {max(values):.3f} s, "
              f"n = {len(values)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--images", type=int, default=3, help="of one worker's step")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--worker-log", dest="log", help="for the workers that torchrun starts")
    options = parser.parse_args()
    if options.log:
        return work(options)
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="rekindle-torchrun.") as directory:
        measure(options, Path(directory) / "log")


if __name__ == "__main__":
    main()
