"""The programs that compare.py and python_loop.py measure. Each function makes one turn: a fresh start, and the times of the
steps after the first ones. Standard library only.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

from commands import must

HERE = pathlib.Path(__file__).resolve().parent
# The heap of a trainer: protocol/trainer_environment.cpp. A C++ trainer sets all but the huge pages itself (model/allocator.cpp).
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=0x7fffffffffff:"
                               "glibc.malloc.top_pad=0x4000000:glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1"}


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of bench/models.py as options of the program."""

    name: str  # --model
    dataset: str
    samples: int  # that a process computes in a step, unless told otherwise
    options: list


SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.0005", "--lr", "0.001"]
ADAMW = ["--optimizer", "adamw", "--lr", "0.001", "--weight-decay", "0.01"]
TINY = "tiny"  # what a trainer takes that has next to no model
MODELS = {
    "vgg11": Model("vgg11", "cifar10", 4, [*SGD, "--dropout", "0.5"]),
    "resnet18": Model("resnet18", "cifar10", 8, SGD),
    "mnist-cnn": Model("mnist-cnn", "mnist", 64, SGD),
    "gpt": Model("gpt", "text", 8, ADAMW),
    "gpt-128": Model("gpt", "text", 8, [*ADAMW, "--width", "128"]),
    TINY: Model("gpt", "text", 1, [*ADAMW, "--layers", "1", "--heads", "1", "--width", "8"]),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all contenders have in common."""

    model: str  # of MODELS
    processes: int
    micro_batches: int  # of a step, over all processes
    images: int  # samples of a micro-batch
    image_size: int
    threads: int  # of each process
    steps: int  # of a turn
    drop: int  # of them, the first ones that do not count


@dataclasses.dataclass(frozen=True)
class Turn:
    times_ms: list  # of each step that counts
    parts: list = ()  # the lines of metrics.jsonl of these steps
    peak_bytes: int = 0  # the highest PSS of a trainer

    @property
    def median_s(self):
        return statistics.median(self.times_ms) / 1000


def built_in(setting, data, precision="fp32"):
    """The words of a command line that trains a built-in model."""
    model = MODELS[setting.model]
    size = [] if model.dataset == "text" else ["--image-size", str(setting.image_size)]
    return ["--model", model.name, "--dataset", model.dataset, "--data", data, *size, *model.options, "--precision", precision]


def script(setting, optimizer, precision="fp32"):
    """The words that train the same model as a Python script. `optimizer`: "rekindle" or "torch"."""
    return ["--precision", precision, "--loader-threads", "0", "--hash-every", "0", HERE / "python_script.py", setting.model,
            "--image-size", str(setting.image_size), "--optimizer", optimizer]


def run_rekindle(program, setting, words, work):
    run_dir = work / "run"
    shutil.rmtree(run_dir, ignore_errors=True)
    must([program, "local", "--run-dir", run_dir, "--workers", str(setting.processes),
          "--micro-batches", str(setting.micro_batches), "--batch-size", str(setting.images * setting.micro_batches),
          "--threads", str(setting.threads), "--steps", str(setting.steps), "--device", "cpu", "--exchange", "shm",
          "--checkpoint-interval", "24h", *words], env={**os.environ, "REKINDLE_PYTHON": sys.executable})
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "step_ms" in line][setting.drop:]
    status = json.loads(must([program, "status", run_dir, "--json"]))
    shutil.rmtree(run_dir)
    peak = max(trainer["peak_pss_bytes"] for trainer in status["trainers"])
    return Turn([line["step_ms"] for line in steps], steps, peak)


def run_ddp(setting, variant, environment, work):
    """bench/ddp.py: the times are rank 0's."""
    store = work / "store"
    store.unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads), "GLOO_SOCKET_IFNAME": "lo", **environment}
    ranks = []
    try:
        for rank in range(setting.processes):
            ranks.append(subprocess.Popen(
                [sys.executable, HERE / "ddp.py", "--variant", variant, "--model", setting.model, "--rank", str(rank),
                 "--processes", str(setting.processes), "--threads", str(setting.threads), "--images", str(setting.images),
                 "--image-size", str(setting.image_size), "--steps", str(setting.steps), "--store", store],
                env=environment, text=True, stdout=subprocess.PIPE, stderr=(work / f"rank{rank}.log").open("w")))
        output = [process.communicate()[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    for rank, process in enumerate(ranks):
        if process.returncode != 0:
            sys.exit(f"bench: DDP's rank {rank} ended with {process.returncode}:\n"
                     f"{(work / f'rank{rank}.log').read_text()[-2000:]}")
    return Turn(json.loads(output[0])[setting.drop:])
