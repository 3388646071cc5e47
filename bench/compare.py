"""Rekindle and PyTorch DDP in alternating pairs of turns (pairs.py), and Rekindle's memory beside its budget.

    bench/run [--model resnet18]                     built-in models, against DDP
    bench/run --script --model gpt-128               the same model as a Python script, against DDP with a fused optimizer
    bench/run --before PROGRAM                       two builds of Rekindle: PROGRAM is that of the commit before

Standard library only; bench/run starts this program. With --before alone, any Python will do.
"""
import argparse
import dataclasses
import functools
import json
import math
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import typing

from commands import Record, must
from contenders import ALLOCATOR, HERE, MODELS, TINY, Setting, built_in, run_ddp, run_rekindle, script
from pairs import Row, alternate, ratio_row, table

DDP = {
    "default": ("DDP default", "default", {}),
    "tuned": ("DDP tuned", "tuned", {}),
    "default-malloc": ("DDP default, Rekindle's malloc", "default", ALLOCATOR),
    "tuned-malloc": ("DDP tuned, Rekindle's malloc", "tuned", ALLOCATOR),
    "channels-last": ("DDP tuned, channels_last", "channels_last", {}),
    "channels-last-malloc": ("DDP tuned, channels_last, our malloc", "channels_last", ALLOCATOR),
    "alone": ("forward and backward alone, our malloc", "alone", ALLOCATOR),
}
FUSED = ["tuned", "tuned-malloc"]
PARTS = ("data_ms", "compute_ms", "exchange_ms", "update_ms")
# The peak of a trainer is sampled twice a second at first: the tiny model has to train for longer than that.
TINY_STEPS = 2000


def options():
    parser = argparse.ArgumentParser(prog="bench/run", description="Rekindle beside PyTorch DDP (Gloo)")
    parser.add_argument("--model", choices=MODELS, default="vgg11", help="(%(default)s)")
    parser.add_argument("--script", action="store_true", help="the model as a Python script, not the built-in one")
    parser.add_argument("--before", metavar="PROGRAM", help="another build of rekindle; then DDP only if --against names it")
    parser.add_argument("--against", nargs="+", choices=DDP, metavar="NAME",
                        help=f"{', '.join(DDP)} (all; with --script {' '.join(FUSED)})")
    parser.add_argument("--bf16", action="store_true", help="also Rekindle with --precision bf16")
    parser.add_argument("--rekindle", default="build/release/bin/rekindle", help="the program (%(default)s)")
    parser.add_argument("--pairs", "--rounds", type=int, default=12, help="pairs of turns with each other program (%(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps a turn (%(default)s)")
    parser.add_argument("--drop", type=int, default=2, help="first steps of a turn that do not count (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="trainers, DDP ranks (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="compute threads of each (%(default)s)")
    samples = ", ".join(f"{name} {model.samples}" for name, model in MODELS.items())
    parser.add_argument("--images", type=int, help=f"images or contexts a process and step ({samples})")
    parser.add_argument("--image-size", type=int, default=224, help="pixels; mnist-cnn has 28 (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every turn and figure there, too")
    args = parser.parse_args()
    if args.processes < 1 or args.processes & (args.processes - 1):
        parser.error("--processes must be a power of two: each computes one micro-batch")
    if not 0 <= args.drop < args.steps or args.pairs < 1:
        parser.error("each turn must have steps left that count")
    if args.images is None:
        args.images = MODELS[args.model].samples
    if args.against is None:
        args.against = [] if args.before else FUSED if args.script else list(DDP)
    if args.model == "mnist-cnn":
        args.image_size = 28
    for name in ("rekindle", "before"):
        given = getattr(args, name)
        if given and shutil.which(given) is None:
            parser.error(f"there is no program {given}: ./dev build release, or name another with --{name}")
        setattr(args, name, given and os.path.abspath(shutil.which(given)))
    return args


def setting_of(args):
    return Setting(args.model, args.processes, args.processes, args.images, args.image_size, args.threads, args.steps, args.drop)


@dataclasses.dataclass(frozen=True)
class Contender:
    run: typing.Callable  # makes a turn
    is_ddp: bool = False
    inverse: bool = False  # the figure is its time / the base's


def contenders_of(args, setting, work):
    """By name: the program that is measured, which is the first, and all others."""
    def ours(program, precision="fp32"):
        words = script(setting, "rekindle", precision) if args.script else built_in(setting, work / "data", precision)
        return functools.partial(run_rekindle, program, setting, words, work)

    base = "rekindle, a script" if args.script else "rekindle"
    found = {base: Contender(ours(args.rekindle))}
    if args.before:
        found[f"{base}, before"] = Contender(ours(args.before))
    for key in dict.fromkeys(args.against):
        name, variant, environment = DDP[key]
        run = functools.partial(run_ddp, setting, variant, environment, work)
        found[name] = Contender(run, is_ddp=variant != "alone")
    if args.bf16:
        found[f"{base}, bf16"] = Contender(ours(args.rekindle, "bf16"), inverse=True)
    return found


def make_data(args, setting, path):
    """More samples than a turn uses, so that no evaluation runs between two timed steps."""
    samples = setting.steps * setting.images * setting.processes + 1
    must([args.rekindle, "make-data", MODELS[setting.model].dataset, path, "--samples", str(5 * math.ceil(samples / 5))])


def figures(contenders, turns, found):
    """The rows of times and ratios; `turns`: by name, `found`: pairs of turns by name."""
    base = next(iter(contenders))
    rows = [Row(name, "s", [turn.median_s for turn in turns[name]]) for name in contenders]
    ratios = {}
    for name, pairs in found.items():
        times = [(first.median_s, second.median_s) for first, second in pairs]
        ratios[name] = ratio_row(base, name, times, contenders[name].inverse)
    of_ddp = [name for name in ratios if contenders[name].is_ddp]
    fastest = max(of_ddp, key=lambda name: ratios[name].median, default=None)
    return rows + list(ratios.values()), fastest


def budget_of(setting):
    """What a trainer may take for the model, in bytes."""
    output = must([sys.executable, HERE / "activations.py", "--model", setting.model, "--threads", str(setting.threads),
                   "--images", str(setting.images), "--image-size", str(setting.image_size)])
    needs = json.loads(output.splitlines()[-1])  # warnings may stand before
    parameters = needs["parameters"]
    # A trainer computes one micro-batch here, so there is one gradient arena.
    return {"parameters": parameters, "optimizer": needs["optimizer"], "gradient arena, 1": parameters,
            "half the parameters' size": parameters // 2, "activations (plain LibTorch)": needs["activations"]}


def peaks_without_model(args, setting, work):
    """What a trainer takes for libraries, code and, with a script, the interpreter: the peak with a tiny model, in bytes."""
    tiny = dataclasses.replace(setting, model=TINY, images=1, steps=TINY_STEPS, drop=0)
    make_data(args, tiny, work / "tiny")
    kinds = {"C++": built_in(tiny, work / "tiny")}
    if args.script:
        kinds["script"] = script(tiny, "rekindle")
    return {kind: run_rekindle(args.rekindle, tiny, words, work).peak_bytes for kind, words in kinds.items()}


def memory_rows(turns, budget, without_model):
    """The highest memory of a trainer in GB. The bound of the first one is the budget and what a trainer of its kind takes
    without a model, which is the last of `without_model`; both may be empty.
    """
    def row(what, peaks, bound=None):
        return Row(f"memory of a trainer: {what}", "GB", [peak / 1e9 for peak in peaks], bound)

    rows = [row(name, [turn.peak_bytes for turn in of_name]) for name, of_name in turns.items()
            if any(turn.peak_bytes for turn in of_name)]
    if budget:
        size = sum(budget.values())
        bound = (size + list(without_model.values())[-1]) / 1e9
        if rows:
            rows[0] = dataclasses.replace(rows[0], bound=bound)
        rows.append(row("budget of the model", [size]))
    return rows + [row(f"{kind}, a tiny model", [peak]) for kind, peak in without_model.items()]


def show_parts(turns):
    """Rank 0's parts of a step; waiting for slower ranks is in exchange_ms."""
    medians = {part: statistics.median(line[part] for turn in turns for line in turn.parts) for part in PARTS}
    print("A step of Rekindle, medians in ms: " + ", ".join(f"{part[:-3]} {value:.0f}" for part, value in medians.items()))


def main():
    args = options()
    setting = setting_of(args)
    size = "" if MODELS[args.model].dataset == "text" else f" of {args.image_size} pixels"
    print(f"{args.model}, {args.processes} processes of {args.threads} thread(s), {args.images} samples{size} each; {args.pairs} "
          f"pairs of turns of {args.steps} steps, the first {args.drop} of each dropped; {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}")
    programs = {program: must([program, "--version"]).strip() for program in (args.rekindle, args.before) if program}
    record = Record(args.json, {"setting": dataclasses.asdict(setting), "script": args.script, "programs": programs})
    with tempfile.TemporaryDirectory(prefix="rekindle-bench.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        work = pathlib.Path(directory)
        contenders = contenders_of(args, setting, work)
        base, *others = contenders
        if not args.script:
            make_data(args, setting, work / "data")
        # The memory of two builds is compared with each other.
        budget = {} if args.before else budget_of(setting)
        without_model = {} if args.before else peaks_without_model(args, setting, work)
        turns = {name: [] for name in contenders}

        def run(name, number):
            turn = contenders[name].run()
            turns[name].append(turn)
            record.add_turn(round=number, name=name, step_ms=turn.times_ms, peak_pss_bytes=turn.peak_bytes)
            print(f"round {number:2}  {name:40}{turn.median_s:8.3f} s", flush=True)
            return turn

        rows, fastest = figures(contenders, turns, alternate(base, others, args.pairs, run))
    rows += memory_rows(turns, budget, without_model)
    record.add_rows(rows)
    print("\n" + table(rows) + "\n")
    if fastest:
        print(f"The fastest DDP: {fastest}")
    if budget:
        print("The budget, GB: " + ", ".join(f"{name} {size / 1e9:.2f}" for name, size in budget.items()))
    show_parts(turns[base])


if __name__ == "__main__":
    main()
