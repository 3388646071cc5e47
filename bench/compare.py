"""Rekindle and PyTorch DDP in turns, and the ratio of their median step times; then Rekindle's memory beside its budget.

The contenders run one after the other in rounds, and each round begins with the next contender (A B C, B C A, C A B, ...), so
that drift of the machine's speed, or other load, affects all contenders equally. Standard library only; bench/run starts this
program.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# The settings of model/allocator.cpp as environment variables of mallopt(3).
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20),
             "MALLOC_ARENA_MAX": "1"}
REKINDLE = "rekindle"
CONTENDERS = {
    REKINDLE: None,
    "DDP default": ("default", {}),
    "DDP tuned": ("tuned", {}),
    "DDP default, Rekindle's malloc": ("default", ALLOCATOR),
    "DDP tuned, Rekindle's malloc": ("tuned", ALLOCATOR),
    "DDP tuned, channels_last": ("channels_last", {}),
    "DDP tuned, channels_last, our malloc": ("channels_last", ALLOCATOR),
    "forward and backward alone, our malloc": ("alone", ALLOCATOR),
}
BF16 = "rekindle, bf16"
# The data set of each model, and the options that give it the optimizer of bench/models.py.
SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.0005", "--lr", "0.001"]
MODELS = {
    "vgg11": ("cifar10", [*SGD, "--dropout", "0.5"]),
    "resnet18": ("cifar10", SGD),
    "mnist-cnn": ("mnist", SGD),
    "gpt": ("text", ["--optimizer", "adamw", "--lr", "0.001", "--weight-decay", "0.01"]),
}
PARTS = ("data_ms", "compute_ms", "exchange_ms", "update_ms")
VGG11_PARAMETERS = 128_807_306  # with 10 classes


def options():
    parser = argparse.ArgumentParser(prog="bench/run", description="Rekindle beside PyTorch DDP (Gloo)")
    parser.add_argument("--model", choices=MODELS, default="vgg11", help="(%(default)s)")
    parser.add_argument("--bf16", action="store_true", help="also Rekindle with --precision bf16")
    parser.add_argument("--rekindle", default="build/release/bin/rekindle", help="the program (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (%(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps a turn (%(default)s)")
    parser.add_argument("--drop", type=int, default=2, help="first steps of a turn that do not count (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="trainers, DDP ranks (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="compute threads of each (%(default)s)")
    parser.add_argument("--images", type=int, default=4, help="images or contexts a process and step (%(default)s)")
    parser.add_argument("--image-size", type=int, default=224, help="pixels; mnist-cnn has 28 (%(default)s)")
    args = parser.parse_args()
    if args.processes & (args.processes - 1):
        parser.error("--processes must be a power of two: each computes one micro-batch")
    if not 0 <= args.drop < args.steps or args.rounds < 1:
        parser.error("each turn must have steps left that count")
    args.rekindle = shutil.which(args.rekindle)
    if args.model == "mnist-cnn":
        args.image_size = 28
    if args.bf16:
        CONTENDERS[BF16] = None
    if args.rekindle is None:
        parser.error("there is no such program: ./dev build release, or name another with --rekindle")
    return args


def in_turn(turn):
    """The contenders of round `turn` (from 1), in their order."""
    names = list(CONTENDERS)
    first = (turn - 1) % len(names)
    return [(name, CONTENDERS[name]) for name in names[first:] + names[:first]]


def must(command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def run_rekindle(args, name, data, work):
    """The step lines of metrics.jsonl without the first ones, and the final status."""
    run_dir = work / "run"
    shutil.rmtree(run_dir, ignore_errors=True)
    dataset, training = MODELS[args.model]
    size = [] if dataset == "text" else ["--image-size", str(args.image_size)]
    must([args.rekindle, "local", "--run-dir", run_dir, "--model", args.model, "--dataset", dataset, "--data", data, *size, *training,
          "--precision", "bf16" if name == BF16 else "fp32",
          "--workers", str(args.processes), "--micro-batches", str(args.processes),
          "--batch-size", str(args.images * args.processes), "--threads", str(args.threads), "--steps", str(args.steps),
          "--device", "cpu", "--exchange", "shm", "--checkpoint-interval", "24h"])
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "step_ms" in line]
    status = json.loads(must([args.rekindle, "status", run_dir, "--json"]))
    shutil.rmtree(run_dir)
    return steps[args.drop:], status


def run_ddp(args, variant, environment, work):
    """Rank 0's step times in ms, without the first ones."""
    store = work / "store"
    store.unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "GLOO_SOCKET_IFNAME": "lo", **environment}
    ranks = []
    try:
        for rank in range(args.processes):
            ranks.append(subprocess.Popen(
                [sys.executable, HERE / "ddp.py", "--variant", variant, "--model", args.model, "--rank", str(rank),
                 "--processes", str(args.processes), "--threads", str(args.threads), "--images", str(args.images),
                 "--image-size", str(args.image_size), "--steps", str(args.steps), "--store", store],
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
    return json.loads(output[0])[args.drop:]


def show_times(times):
    print(f"\n{'':38}{'median s':>10}{'fastest':>10}{'slowest':>10}{'rekindle / it':>15}")
    own = statistics.median(times[REKINDLE])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:38}{median / 1000:10.3f}{min(values) / 1000:10.3f}{max(values) / 1000:10.3f}{own / median:15.2f}")


def show_parts(steps):
    """Rank 0's parts of a step; waiting for slower ranks is in exchange_ms."""
    medians = {part: statistics.median(line[part] for line in steps) for part in PARTS}
    print("\nA step of Rekindle, medians in ms: "
          + ", ".join(f"{part[:-3]} {value:.0f}" for part, value in medians.items()))


def show_memory(args, statuses):
    """A trainer computes one micro-batch here, so one gradient arena; the budget is that of a trainer."""
    parameters = 4 * VGG11_PARAMETERS
    activations = int(must([sys.executable, HERE / "activations.py", "--threads", str(args.threads),
                            "--images", str(args.images), "--image-size", str(args.image_size)]))
    rows = {"parameters": parameters, "momenta": parameters, "gradient arena, 1": parameters,
            "half the parameters' size": parameters // 2, "activations (plain LibTorch)": activations}
    peak = max(trainer["peak_pss_bytes"] for status in statuses for trainer in status["trainers"])
    print("\nMemory of a trainer, GB:  " + ", ".join(f"{name} {size / 1e9:.2f}" for name, size in rows.items()))
    budget = sum(rows.values())
    print(f"peak PSS {peak / 1e9:.2f} of a budget of {budget / 1e9:.2f}: {peak / budget:.2f}")


def main():
    args = options()
    print(f"{args.model}, {args.processes} processes of {args.threads} thread(s), {args.images} images of {args.image_size} pixels "
          f"each; {args.rounds} rounds of {args.steps} steps, the first {args.drop} of each dropped; {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")
    times = {name: [] for name in CONTENDERS}
    steps, statuses = [], []
    with tempfile.TemporaryDirectory(prefix="rekindle-bench.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        work = pathlib.Path(directory)
        # The data set has more images than the run uses, so no evaluation runs between two timed steps.
        images = args.steps * args.images * args.processes + 1
        must([args.rekindle, "make-data", MODELS[args.model][0], work / "data", "--samples", str(5 * math.ceil(images / 5))])
        for turn in range(1, args.rounds + 1):
            for name, ddp in in_turn(turn):
                if ddp is None:
                    lines, status = run_rekindle(args, name, work / "data", work)
                    if name == REKINDLE:
                        steps += lines
                        statuses.append(status)
                    values = [line["step_ms"] for line in lines]
                else:
                    values = run_ddp(args, *ddp, work)
                times[name] += values
                print(f"round {turn}  {name:38}{statistics.median(values) / 1000:8.3f} s", flush=True)
        show_times(times)
        show_parts(steps)
        if args.model == "vgg11":
            show_memory(args, statuses)


if __name__ == "__main__":
    main()
