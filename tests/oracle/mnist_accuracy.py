#!/usr/bin/env python3
"""examples/mnist learns as well as PyTorch's MNIST example: the test accuracy, mean over the seeds, is within 0.2 %.

Usage: mnist_accuracy.py PATH_TO_REKINDLE [--samples N] [--data DIR] [--seeds N] [--epochs N]. Needs torch, torchvision and numpy. The data
are MNIST's files in DIR, not compressed, or else images that `make-data` draws. Initial values, dropout and the order of the
samples are drawn by each side for itself.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import numpy
import torch
import torch.nn.functional as F

import networks

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "examples/mnist/mnist.toml"
BATCH = 64


def read(data, split):
    images = numpy.fromfile(data / f"{split}-images-idx3-ubyte", numpy.uint8)[16:].reshape(-1, 1, 28, 28)
    labels = numpy.fromfile(data / f"{split}-labels-idx1-ubyte", numpy.uint8)[8:]
    return (torch.from_numpy(images) / 255 - 0.1307) / 0.3081, torch.from_numpy(labels).long()


def pytorch(data, seed, epochs):
    """Test accuracy in percent after training."""
    torch.manual_seed(seed)
    (images, labels), (test_images, test_labels) = read(data, "train"), read(data, "t10k")
    model = networks.MnistCnn(dropouts=(0.25, 0.5))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(epochs):
        model.train()
        for chosen in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(test_images.split(1000), test_labels.split(1000)))
    return 100 * right / len(test_labels)


def rekindle(program, data, run, seed, epochs):
    subprocess.run([program, "local", "--config", RECIPE, "--run-dir", run, "--data", data, "--workers", "2", "--seed", str(seed),
                    "--epochs", str(epochs)], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return 100 * [line["test_accuracy"] for line in lines if "test_accuracy" in line][-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rekindle")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=14)
    args = parser.parse_args()
    reached = {"rekindle": [], "PyTorch": []}
    with tempfile.TemporaryDirectory(prefix="rekindle-mnist.") as folder:
        work = pathlib.Path(folder)
        data = args.data or work / "data"
        if not args.data:
            subprocess.run([args.rekindle, "make-data", "mnist", data, "--samples", str(args.samples)], check=True,
                           stdout=subprocess.DEVNULL)
        for seed in range(1, args.seeds + 1):
            reached["rekindle"].append(rekindle(args.rekindle, data, work / f"run{seed}", seed, args.epochs))
            reached["PyTorch"].append(pytorch(data, seed, args.epochs))
            print(f"seed {seed}: " + ", ".join(f"{name} {values[-1]:.2f} %" for name, values in reached.items()), flush=True)
    means = {name: statistics.mean(values) for name, values in reached.items()}
    apart = abs(means["rekindle"] - means["PyTorch"])
    print(f"test accuracy after {args.epochs} epochs, mean of {args.seeds} seeds: rekindle {means['rekindle']:.2f} %, "
          f"PyTorch {means['PyTorch']:.2f} %: {'ok' if apart <= 0.2 else 'FAILED'}")
    return apart > 0.2


if __name__ == "__main__":
    raise SystemExit(main())
