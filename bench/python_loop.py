"""A step of a Python script under Rekindle, against a plain PyTorch loop with the same micro-batches and allocator settings,
in alternating pairs of turns (pairs.py).

    python bench/python_loop.py build/release/bin/rekindle [MODEL...] [--pairs 12] [--steps 12] [--json FILE]

Both with one process and one thread. Prints the median time of a step of each, and the ratios: with an optimizer of rekindle,
and with one of torch.optim. Needs torch and torchvision.
"""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import sys
import tempfile

from commands import Record, must
from contenders import ALLOCATOR, HERE, MODELS, Setting, Turn, run_rekindle, script
from pairs import Row, alternate, ratio_row, table

LOOP = "plain loop"
SCRIPTS = {"script": "rekindle", "script, torch.optim": "torch"}  # by whose optimizer
DROP = 2  # first steps of a turn that do not count
MICRO_BATCHES = 2


def run_loop(setting):
    output = must(
        [sys.executable, HERE / "plain_loop.py", "--model", setting.model, "--threads", str(setting.threads),
         "--images", str(setting.images), "--image-size", str(setting.image_size),
         "--micro-batches", str(setting.micro_batches), "--steps", str(setting.steps)],
        env={**os.environ, "OMP_NUM_THREADS": str(setting.threads), **ALLOCATOR})
    return Turn(json.loads(output.splitlines()[-1])[setting.drop:])  # warnings may stand before


def compare(args, model, record):
    """The rows of one model."""
    setting = Setting(model, processes=1, micro_batches=MICRO_BATCHES, images=MODELS[model].samples,
                      image_size=28 if model == "mnist-cnn" else 224, threads=1, steps=args.steps, drop=DROP)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        makers = {LOOP: functools.partial(run_loop, setting)}
        for name, optimizer in SCRIPTS.items():
            words = script(setting, optimizer)
            makers[name] = functools.partial(run_rekindle, args.program, setting, words, pathlib.Path(directory))
        turns = {name: [] for name in makers}

        def run(name, number):
            turn = makers[name]()
            turns[name].append(turn)
            record.add_turn(model=model, round=number, name=name, step_ms=turn.times_ms, peak_pss_bytes=turn.peak_bytes)
            print(f"{model}  round {number:2}  {name:24}{turn.median_s:8.3f} s", flush=True)
            return turn

        found = alternate(LOOP, list(SCRIPTS), args.pairs, run)
    rows = [Row(name, "s", [turn.median_s for turn in of_name]) for name, of_name in turns.items()]
    for name, pairs in found.items():
        rows.append(ratio_row(LOOP, name, [(loop.median_s, ours.median_s) for loop, ours in pairs], inverse=True))
    return [dataclasses.replace(row, what=f"{model}: {row.what}") for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="*", default=["vgg11", "resnet18", "gpt"], metavar="model", help=", ".join(MODELS))
    parser.add_argument("--pairs", "--turns", type=int, default=12, help="pairs of turns with each (%(default)s)")
    parser.add_argument("--steps", type=int, default=12, help=f"steps a turn, the first {DROP} do not count (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every turn and figure there, too")
    args = parser.parse_args()
    if unknown := set(args.models) - set(MODELS):
        parser.error(f"there is no model {', '.join(unknown)}: {', '.join(MODELS)}")
    if args.steps <= DROP or args.pairs < 1:
        parser.error("each turn must have steps left that count")
    record = Record(args.json, {"programs": {args.program: must([args.program, "--version"]).strip()}})
    rows = []
    for model in args.models:
        of_model = compare(args, model, record)
        record.add_rows(of_model)
        rows += of_model
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
