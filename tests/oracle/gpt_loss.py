#!/usr/bin/env python3
"""--model gpt learns a text as well as the same model trained by PyTorch: the test loss, mean over three seeds, is within 2 %.

Usage: gpt_loss.py PATH_TO_REKINDLE [--steps N]. Needs torch and torchvision. The text is Debian's licences in
/usr/share/common-licenses. Both sides have AdamW, clipping, a cosine schedule with warm-up, and the same batches' sizes; initial
values, dropout and the order of the samples are drawn by each side for itself.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

import torch
import torch.nn.functional as F

import networks

LICENCES = pathlib.Path("/usr/share/common-licenses")
CONTEXT, BATCH, WARM_UP, RATE, DECAY, CLIP = 128, 16, 20, 1e-3, 0.01, 1.0
SIZES = {"layers": 2, "heads": 4, "width": 128}
SEEDS = (1, 2, 3)


def contexts(split):
    """Inputs and targets, as data/text.cpp cuts a split."""
    count = (len(split) - 1) // CONTEXT
    inputs = split[:count * CONTEXT].view(count, CONTEXT)
    return inputs, split[1:count * CONTEXT + 1].view(count, CONTEXT)


def pytorch(text, seed, steps):
    """The test loss after training."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    tokens = torch.tensor(list(text))
    test_bytes = len(text) // 10
    train, test = contexts(tokens[:len(text) - test_bytes]), contexts(tokens[len(text) - test_bytes:])
    model = networks.make("gpt", {**SIZES, "context": CONTEXT, "vocabulary": 256})
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)

    def rate(step):  # step: from 0
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))

    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(train[0]))])
        chosen, order = order[:BATCH], order[BATCH:]
        for group in optimizer.param_groups:
            group["lr"] = RATE * rate(step)
        optimizer.zero_grad()
        F.cross_entropy(model(train[0][chosen]).flatten(0, 1), train[1][chosen].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(model(test[0]).flatten(0, 1), test[1].flatten()).item()


def rekindle(program, text, work, seed, steps):
    run = work / f"run{seed}"
    sizes = [word for name, value in SIZES.items() for word in (f"--{name}", str(value))]
    subprocess.run([program, "local", "--run-dir", run, "--model", "gpt", "--data", text, *sizes, "--context", str(CONTEXT),
                    "--batch-size", str(BATCH), "--micro-batches", "2", "--workers", "2", "--steps", str(steps), "--seed", str(seed),
                    "--optimizer", "adamw", "--lr", str(RATE), "--weight-decay", str(DECAY), "--clip-norm", str(CLIP),
                    "--schedule", "cosine", "--warmup-steps", str(WARM_UP)], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["test_loss"] for line in lines if "test_loss" in line][-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rekindle")
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    text = b"".join(path.read_bytes() for path in sorted(LICENCES.iterdir()) if not path.is_symlink())
    losses = {"rekindle": [], "PyTorch": []}
    with tempfile.TemporaryDirectory(prefix="rekindle-gpt.") as directory:
        work = pathlib.Path(directory)
        (work / "text").write_bytes(text)
        for seed in SEEDS:
            losses["rekindle"].append(rekindle(args.rekindle, work / "text", work, seed, args.steps))
            losses["PyTorch"].append(pytorch(text, seed, args.steps))
            print(f"seed {seed}: " + ", ".join(f"{name} {values[-1]:.4f}" for name, values in losses.items()), flush=True)
    means = {name: statistics.mean(values) for name, values in losses.items()}
    ratio = means["rekindle"] / means["PyTorch"]
    print(f"test loss of {len(text)} bytes, {args.steps} steps, mean of {len(SEEDS)} seeds: "
          f"rekindle {means['rekindle']:.4f}, PyTorch {means['PyTorch']:.4f}, ratio {ratio:.4f}: {'ok' if abs(ratio - 1) <= 0.02 else 'FAILED'}")
    return abs(ratio - 1) > 0.02


if __name__ == "__main__":
    raise SystemExit(main())
