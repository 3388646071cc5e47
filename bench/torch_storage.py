#!/usr/bin/env python3
"""torch.save and torch.distributed.checkpoint on the storage that bench_storage measures.

  REKINDLE_BENCH_PYTHON=... ; $REKINDLE_BENCH_PYTHON bench/torch_storage.py DIRECTORY [--rounds 5] [--ranks 2] [--beside PROGRAM]

The state of VGG11 with momenta (1.06 GB), written durably: torch.save and fsync by one process; dcp.save and dcp.async_save
by several over Gloo, and fsync of every file. For async_save also how long the call blocks. In turns, with
--beside build/release/bin/bench_storage also three rounds of bench_storage. Needs torch.
"""
import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

from commands import must


def state(gigabytes):
    rows = int(gigabytes * 1e9 / 2 / (25088 + 4096) / 4)
    return {f"{prefix}classifier.{layer}.weight": torch.randn(rows, columns)
            for prefix in ("", "momentum.") for layer, columns in ((0, 25088), (3, 4096))}


def sync(directory):
    for path in [*directory.rglob("*"), directory]:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def timed(directory, write):
    """Seconds until `write` returned, and until all written data are durable."""
    dist.barrier()
    began = time.perf_counter()
    pending = write()
    blocked = time.perf_counter() - began
    if pending is not None:
        pending.result()
    dist.barrier()
    if dist.get_rank() == 0:
        sync(directory)
    dist.barrier()
    return blocked, time.perf_counter() - began


def work(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    # async_save needs a backend for CPU tensors, such as Gloo.
    dist.init_process_group("cpu:gloo", rank=rank, world_size=options.ranks)
    tensors = state(options.gigabytes)
    size = sum(tensor.numel() * 4 for tensor in tensors.values()) / 1e9
    ways = {
        "torch.save": lambda to: torch.save(tensors, to / "state.pt") if rank == 0 else None,
        "dcp.save": lambda to: dcp.save(tensors, checkpoint_id=to) and None,
        "dcp.async_save": lambda to: dcp.async_save(tensors, checkpoint_id=to),
    }
    seen = {name: [] for name in ways}
    for turn in range(options.rounds):
        for name, way in ways.items():
            to = Path(options.work) / f"{turn}-{name}"
            if rank == 0:
                to.mkdir()
            dist.barrier()
            seen[name].append(timed(to, lambda: way(to)))
            if rank == 0:
                shutil.rmtree(to)
                os.sync()
        if options.beside and rank == 0:
            print(must([options.beside, options.work, "--rounds", "3"]), end="", flush=True)
    if rank == 0:
        for name, times in seen.items():
            blocked, durable = (statistics.median(column) for column in zip(*times))
            print(f"{name}: {size / durable:.2f} GB/s to durable, the call blocks for {blocked:.2f} s (medians of "
                  f"{len(times)})")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--gigabytes", type=float, default=1.06)
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--beside", help="bench_storage: the raw write and rekindle's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="rekindle-torch-") as options.work:
        mp.spawn(work, (options,), nprocs=options.ranks)


if __name__ == "__main__":
    main()
