#!/usr/bin/env python3
"""Ten steps of the two reference networks in PyTorch, written as golden files for tests/model/golden_test.cpp.

Needs torch 2.11, torchvision 0.26 and numpy. Usage: pytorch_golden.py OUTPUT_DIRECTORY
Initial values, images, labels and projections come from a hash, so nothing big has to be stored; golden.hpp has the same
formulas in C++.

Small images and few of them on purpose: a ReLU or a pool whose inputs lie within rounding of each other may decide
differently here and there, which changes the gradients of its layer by far more than rounding. At 32 pixels the same golden
file was met with oneDNN and LibTorch limited to SSE4.1, AVX2 and AVX-512; at 64 pixels one such flip was seen.
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
import torchvision

PHI = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
CHUNK = 1 << 22  # elements hashed at a time
VALUES, IMAGES, LABELS, SIGNS = 1, 2, 3, 4  # what a stream of numbers is for
STEPS = 10


def mix(z):
    """SplitMix64's finalizer on an array of uint64 (Steele, Lea, Flood 2014)."""
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def stream(purpose, part, first, count):
    """Elements [first, first + count) of a stream: mix(key + (i + 1) * PHI)."""
    key = numpy.uint64(((purpose << 32) + part) * PHI & MASK)
    i = numpy.arange(first + 1, first + count + 1, dtype=numpy.uint64)
    return mix(key + i * numpy.uint64(PHI))


def uniform(purpose, part, first, count, bound):
    """Floats in [-bound, bound), exact: 24 bits and two float32 operations."""
    unit = (stream(purpose, part, first, count) >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2**-23)
    return (unit - numpy.float32(1)) * numpy.float32(bound)


def chunks(count):
    return [(first, min(CHUNK, count - first)) for first in range(0, count, CHUNK)]


def bound_of(shape):
    """A little less than what keeps the scale of activations through ReLUs (6 / fan_in); biases +-1/20."""
    return numpy.float32(0.05 if len(shape) == 1 else (4.0 / numpy.prod(shape[1:], dtype=numpy.int64)) ** 0.5)


def initial(index, shape, first, count):
    return uniform(VALUES, index, first, count, bound_of(shape))


def summary(tensor, index, initial_shape=None):
    """[norm, four projections on +1/-1 vectors]; of the movement since the start if `initial_shape` is given."""
    flat = tensor.detach().reshape(-1).numpy()
    square, projections = 0.0, numpy.zeros(4)
    for first, count in chunks(flat.size):
        values = flat[first : first + count].astype(numpy.float64)
        if initial_shape is not None:
            values = values - initial(index, initial_shape, first, count)
        square += float(values @ values)
        bits = stream(SIGNS, index, first, count)
        for k in range(4):
            sign = 1.0 - 2.0 * ((bits >> numpy.uint64(k)) & numpy.uint64(1)).astype(numpy.float64)
            projections[k] += values @ sign
    return [square**0.5, *projections.tolist()]


class MnistCnn(torch.nn.Module):
    """github.com/pytorch/examples, mnist/main.py, without dropout."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3, 1)
        self.conv2 = torch.nn.Conv2d(32, 64, 3, 1)
        self.fc1 = torch.nn.Linear(9216, 128)
        self.fc2 = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def run(model, optimizer, arenas, shape, leaves, images):
    """`arenas` maps the optimizer's state names to ours. Steps alternate between two batches."""
    names = list(model.state_dict())
    parameters = list(model.parameters())
    with torch.no_grad():
        for index, parameter in enumerate(parameters):
            flat = parameter.view(-1)
            for first, count in chunks(flat.numel()):
                flat[first : first + count] = torch.from_numpy(initial(index, parameter.shape, first, count))
    model.train()
    pixels = int(numpy.prod(shape))
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for leaf in range(leaves):
            part = step % 2 * leaves + leaf
            x = torch.from_numpy(uniform(IMAGES, part, 0, images * pixels, 2.0)).view(images, *shape)
            y = torch.from_numpy((stream(LABELS, part, 0, images) % numpy.uint64(10)).astype(numpy.int64))
            loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)
            (loss / leaves).backward()
            total += loss.item() / leaves
        optimizer.step()
        losses.append(total)
    tensors = {}
    for index, (name, parameter) in enumerate(zip(names, parameters)):
        tensors[name] = summary(parameter, index)
        tensors["moved." + name] = summary(parameter, index, parameter.shape)
        for theirs, ours in arenas.items():
            tensors[f"{ours}.{name}"] = summary(optimizer.state[parameter][theirs], index)
    return {"losses": losses, "tensors": tensors}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)

    vgg = torchvision.models.vgg11(num_classes=10, dropout=0.0)
    sgd = torch.optim.SGD(vgg.parameters(), lr=0.00002, momentum=0.9, weight_decay=5e-4)
    mnist = MnistCnn()
    adadelta = torch.optim.Adadelta(mnist.parameters(), lr=0.02, rho=0.9, eps=1e-6)
    for name, golden in (
        ("mnist-cnn", run(mnist, adadelta, {"square_avg": "square_avg", "acc_delta": "acc_delta"}, (1, 28, 28), 4, 2)),
        ("vgg11", run(vgg, sgd, {"momentum_buffer": "momentum"}, (3, 32, 32), 2, 1)),
    ):
        (out / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")
        print(name, golden["losses"])


if __name__ == "__main__":
    numpy.seterr(over="ignore")
    main()
