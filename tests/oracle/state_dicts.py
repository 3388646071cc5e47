#!/usr/bin/env python3
"""What torchvision and PyTorch say of every model, written as golden file for tests/model/models_test.cpp: names and shapes of
all tensors and, for some models, numbers of one training step from torch.manual_seed(1).

Needs torch 2.11, torchvision 0.26 and numpy.

state_dicts.py write FILE.json    makes the file
state_dicts.py check FILE.json    makes it anew and compares: names and shapes exactly, numbers to a thousandth

Images, labels and tokens come from hashed.py. Each tensor is one line of the file:
[name, shape] or [name, shape, norm of the initial values, norm of the gradient].
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
from hashed import IMAGES, LABELS, integers, uniform
from networks import VISION, make

SEED = 1
WITH_NUMBERS = {"vgg11": 4, "vgg16_bn": 4, "resnet18": 8, "resnet50": 8, "mnist-cnn": 4, "gpt": 3}  # samples


def build(name):
    """The model and the options that it was built with, named as in model/models.hpp."""
    torch.manual_seed(SEED)
    options = {"classes": 10, "channels": 3, "image_size": 64 if name.startswith("resnet") else 32}
    if name == "gpt":
        options = {"layers": 2, "heads": 2, "width": 32, "context": 16, "vocabulary": 64}
    if name == "mnist-cnn":
        options = {"classes": 10, "channels": 1, "image_size": 28}
    return make(name, options), options


def samples_of(name, options, count):
    """Inputs and labels."""
    if name == "gpt":
        shape = (count, options["context"] - 1)  # shorter than the context on purpose
        return [torch.from_numpy(integers(LABELS, part, shape[0] * shape[1], options["vocabulary"])).view(shape)
                for part in (0, 1)]
    shape = (count, options["channels"], options["image_size"], options["image_size"])
    images = torch.from_numpy(uniform(IMAGES, 0, 0, int(numpy.prod(shape)), 2.0)).view(shape)
    return images, torch.from_numpy(integers(LABELS, 0, count, 10))


def step(model, x, y):
    """Numbers of a training step, and of an evaluation after it, which sees the running statistics. Of logits the last 40."""
    model.train()
    logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
    loss.backward()
    model.eval()
    with torch.no_grad():
        evaluated = model(x)
    return {"loss": loss.item(), "logits": logits.flatten()[-40:].tolist(), "evaluated": evaluated.flatten()[-40:].tolist()}


def describe(name):
    model, options = build(name)
    golden = {"options": options}
    initial = {key: value.double().norm().item() for key, value in model.named_parameters()}
    if name in WITH_NUMBERS:
        golden["samples"] = WITH_NUMBERS[name]
        golden["numbers"] = step(model, *samples_of(name, options, WITH_NUMBERS[name]))
    golden["parameters"] = [
        [key, list(value.shape)] + ([initial[key], value.grad.double().norm().item()] if name in WITH_NUMBERS else [])
        for key, value in model.named_parameters()]
    golden["buffers"] = [[key, list(value.shape)] for key, value in model.named_buffers()]
    return golden


def text_of(golden):
    lines = []
    for key, value in golden.items():
        if key in ("parameters", "buffers") and value:
            lines.append(f'  "{key}": [\n' + ",\n".join("   " + json.dumps(entry) for entry in value) + "\n  ]")
        else:
            lines.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n }"


def assert_close(where, new, old):
    """Numbers of another processor are near, everything else is equal. The float32 gradients of resnet50 are up to 0.15 % off
    those in float64, on one processor more than on another.
    """
    if isinstance(new, float) and isinstance(old, float):
        assert abs(new - old) <= 3e-3 * abs(old) + 1e-3, (where, new, old)
    elif isinstance(new, dict):
        assert list(new) == list(old), (where, list(new), list(old))
        for key, value in new.items():
            assert_close((*where, key), value, old[key])
    elif isinstance(new, list):
        assert len(new) == len(old), (where, new, old)
        for index, (a, b) in enumerate(zip(new, old)):
            assert_close((*where, index), a, b)
    else:
        assert new == old, (where, new, old)


def main(what, path):
    torch.set_num_threads(1)
    models = []
    for name in VISION + ["mnist-cnn", "gpt"]:
        models.append(f' "{name}": ' + text_of(describe(name)))
        print(name, flush=True)
    text = "{\n" + ",\n".join(models) + "\n}\n"
    if what == "write":
        path.write_text(text)
    else:
        assert_close((), json.loads(text), json.loads(path.read_text()))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
