#!/usr/bin/env python3
"""Whole runs as PyTorch walks them, the golden files of tests/process/whole_run_test.cpp: data set, order of the samples,
augmentation, schedule, and a step over the micro-batches of all trainers.

Needs torch 2.11, torchvision 0.26, numpy and pillow.

whole_run.py write|check FILE.json    as walks.py does with its files; its name says which run
"""
import json
import pathlib
import sys
from functools import lru_cache
from math import cos, pi

import numpy
import torch
import walks
from hashed import AUGMENT, IMAGES, LABELS, ORDER, Rng, integers, stream, stream_key
from networks import make
from pil_resize import IMAGE_NET, resize

RECIPE = walks.walk("resnet18", walks.IMAGE, "sgd", 1e-3, label_smoothing=0.1, steps=10, momentum=0.8, nesterov=True,
                    weight_decay=0.1) | {"micro_batches": 4, "seed": 5, "train_samples": 40, "warmup_steps": 3,
                                         "schedule": "cosine", "batches": 3}
RECIPES = {
    "whole_run": RECIPE,
    "limited_run": RECIPE | {"clip_norm": 50.0, "ema": 0.8, "no_decay": ["*bn*", "fc.bias"], "lr_scale": {"fc.*": 0.5}},
}  # fmt: skip
DATA = 1000  # the part of the streams that the data set's bytes and labels come from
SIDE, FULL = 32, 73  # pixels of a stored image, and of the resized one, 64 * 256 / 224, of which a window is taken


@lru_cache
def data_set():
    """Pixels [samples, 3, 32, 32] and labels of the training samples."""
    count = RECIPE["train_samples"]
    pixels = (stream(IMAGES, DATA, 0, count * 3 * SIDE * SIDE) >> numpy.uint64(56)).astype(numpy.uint8)
    return pixels.reshape(count, 3, SIDE, SIDE), integers(LABELS, DATA, count, 10)


@lru_cache
def permutation(epoch):
    """The Fisher-Yates shuffle in Durstenfeld's form."""
    samples, rng = list(range(RECIPE["train_samples"])), Rng(stream_key(RECIPE["seed"], ORDER, epoch))
    for i in range(len(samples), 1, -1):
        j = rng.below(i)
        samples[i - 1], samples[j] = samples[j], samples[i - 1]
    return samples


def image(sample, key):
    """Resized, cropped and flipped at random, and normalised in single precision."""
    rng, size = Rng(key), RECIPE["options"]["image_size"]
    top, left, flip = rng.below(FULL - size + 1), rng.below(FULL - size + 1), rng.below(2) == 1
    planes = []
    for plane, mean, std in zip(data_set()[0][sample], *IMAGE_NET):
        window = resize(plane, FULL, FULL)[top : top + size, left : left + size]
        planes.append(((window[:, ::-1] if flip else window).astype(numpy.float32) / numpy.float32(255) - mean) / std)
    return numpy.stack(planes)


def batch_of(recipe, number, dtype):
    batch = []
    for micro_batch in range(recipe["micro_batches"]):
        first = (number * recipe["micro_batches"] + micro_batch) * recipe["samples"]
        positions = [divmod(first + i, recipe["train_samples"]) for i in range(recipe["samples"])]
        chosen = [permutation(epoch)[place] for epoch, place in positions]
        images = [image(sample, stream_key(recipe["seed"], AUGMENT, number, micro_batch, i)) for i, sample in enumerate(chosen)]
        batch.append((torch.from_numpy(numpy.stack(images)).to(dtype), torch.from_numpy(data_set()[1][chosen])))
    return batch


def rate_of(recipe, number):
    """A linear warm-up, then half a cosine."""
    warmup = recipe["warmup_steps"]
    if number < warmup:
        return recipe["lr"] * (number + 1) / warmup
    return recipe["lr"] * (1 + cos(pi * (number - warmup) / (recipe["steps"] - warmup))) / 2


def main(what, path):
    torch.set_num_threads(1)
    recipe = RECIPES[path.stem]
    golden = walks.make_walk(recipe, batch_of, rate_of)
    golden["rates"] = [rate_of(recipe, number) for number in range(recipe["steps"])]
    model = make(recipe["model"], recipe["options"])
    golden["shapes"] = [list(tensor.shape) for tensors in (model.parameters(), model.buffers()) for tensor in tensors]
    good = walks.describe(path.stem, golden)
    if what == "write":
        path.write_text(walks.text_of(golden))
        return good
    return walks.agrees(path.stem, golden, json.loads(path.read_text())) and good


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    sys.exit(0 if main(sys.argv[1], pathlib.Path(sys.argv[2])) else 1)
