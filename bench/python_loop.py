"""A step of a Python script under Rekindle, against a plain PyTorch loop with the same micro-batches, in turns.

    PYTHONPATH=build/dev/bin/python python bench/python_loop.py build/dev/bin/rekindle [MODEL...] [--turns 5] [--steps 12]

Both with one process and one thread. Prints the median time of a step of each, and the ratio of each turn.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def plain(name, steps):
    """Milliseconds of each step of the loop."""
    import torch

    sys.path.insert(0, str(HERE))
    import python_script as script

    torch.set_num_threads(1)
    data, samples, parts = script.SETTINGS[name]
    dataset, model = data(), script.model_of(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, foreach=True)
    loader = torch.utils.data.DataLoader(dataset, batch_size=samples, shuffle=True, drop_last=True)
    batches, times = iter(loader), []
    model.train()
    for _ in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        for _ in range(parts):
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader)
                batch = next(batches)
            (script.loss(model, batch) / parts).backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    return times


def under_rekindle(program, name, steps, optimizer):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "REKINDLE_PYTHON": sys.executable}
        subprocess.run(
            [program, "local", "--run-dir", f"{folder}/run", str(HERE / "python_script.py"), name, str(steps), optimizer],
            check=True, capture_output=True, env=environment,
        )  # fmt: skip
        with open(f"{folder}/run/metrics.jsonl") as file:
            return [json.loads(line)["step_ms"] for line in file]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="*", default=["vgg11", "resnet18", "gpt"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    if arguments.plain:  # in a process of its own, with the same allocator as a trainer
        print(json.dumps(plain(arguments.program, arguments.steps)))
        return
    tunables = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=0x7fffffffffff"
    for name in arguments.models:
        ratios = {"rekindle": [], "torch": []}
        medians = {"plain": [], "rekindle": [], "torch": []}
        for turn in range(arguments.turns):
            output = subprocess.run(
                [sys.executable, __file__, name, "--plain", "--steps", str(arguments.steps)],
                check=True, capture_output=True, text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "GLIBC_TUNABLES": tunables},
            ).stdout  # fmt: skip
            loop = statistics.median(json.loads(output)[2:])
            medians["plain"].append(loop)
            for optimizer in ratios:
                ours = statistics.median(under_rekindle(arguments.program, name, arguments.steps, optimizer)[2:])
                medians[optimizer].append(ours)
                ratios[optimizer].append(ours / loop)
        print(name, {key: f"{statistics.median(value):.1f} ms" for key, value in medians.items()},
              {key: f"{statistics.median(value):.3f} ({min(value):.3f} to {max(value):.3f})" for key, value in ratios.items()},
              flush=True)  # fmt: skip


main()
