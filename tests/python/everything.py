"""A script for tests: a small model with batch norm, dropout, attention, tied weights, a frozen parameter and one that
never gets a gradient, one in channels_last, buffers that each pass replaces by other tensors, and a mask; samples with
random augmentation; metrics. Its arguments are NAME=VALUE, and go to run()."""

import ast
import contextlib
import os
import random
import signal
import sys

import torch
from torch import nn
from torch.nn import functional

import rekindle


# As scripts have them that also run alone. In a trainer they would end a step.
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda *_: sys.exit(3))


class Samples(torch.utils.data.Dataset):
    """8x8 patterns with noise of their own for each epoch."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = torch.zeros(1, 8, 8)
        label = index % 4
        image[0, 2 * label : 2 * label + 2] = 1.0
        if random.random() < 0.5:
            image = image.flip(2)
        return image + 0.1 * torch.randn(1, 8, 8), label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1).to(memory_format=torch.channels_last)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.mix = nn.Linear(8, 8, bias=False)
        self.tied = self.mix  # the same module under two names
        self.again = nn.Linear(8, 8, bias=False)
        self.again.weight = self.mix.weight  # and the same parameter in another
        self.head = nn.Linear(8, 4)
        self.unused = nn.Linear(3, 3)
        self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("constant", torch.full((3,), 0.5, dtype=torch.float16))
        self.register_buffer("scratch", torch.arange(8.0), persistent=False)
        self.register_buffer("mask", torch.arange(8) > 0)
        self.register_buffer("is_odd", torch.zeros((), dtype=torch.bool))  # the number of the step
        self.register_buffer("center", torch.zeros(8))

    def forward(self, images):
        if self.training:
            self.seen += 1
            self.is_odd = ~self.is_odd
        values = functional.relu(self.norm(self.convolution(images)))
        values = values + self.second(values.contiguous(memory_format=torch.channels_last))
        tokens = values.flatten(2).transpose(1, 2) * self.frozen
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        tokens = functional.dropout(self.again(self.mix(tokens)), 0.1, self.training)
        if self.training:
            self.center = 0.9 * self.center + 0.1 * tokens.detach().mean((0, 1))
        tokens = (tokens - self.is_odd * self.center) * self.mask
        return self.head(tokens.mean(1))


def loss(model, batch):
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def metrics(model, batch):
    images, labels = batch
    return {"accuracy": ((model(images).argmax(1) == labels).sum().item(), len(labels))}


class Counting(torch.optim.SGD):
    """Keeps a number in its parameter groups, as some optimizers without a schedule do."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] = group.get("k", 0) + 1
            group["lr"] /= 1 + 0.1 * group["k"]
        super().step()


class Lamb(torch.optim.Optimizer):
    """Each tensor's step is as long as the tensor, times the rate. Fails once, in the trainer that finds the file `fails`."""

    def __init__(self, parameters, lr, fails):
        super().__init__(parameters, {"lr": lr})
        self.fails = fails

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["mean"] = state["mean"] * 0.9 + parameter.grad * 0.1  # another tensor each time
                state["square"].mul_(0.99).add_(parameter.grad**2, alpha=0.01)
                update = state["mean"] / (state["square"].sqrt() + 1e-6)
                ratio = parameter.norm() / update.norm() if parameter.norm() > 0 and update.norm() > 0 else 1.0
                parameter.sub_(group["lr"] * ratio * update)
        if self.fails and os.path.exists(self.fails):
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.fails)
                raise RuntimeError("this trainer's update fails")


def muon(parameters):
    """Muon updates matrices; all others keep their first values."""
    return torch.optim.Muon([parameter for parameter in parameters if parameter.ndim == 2], lr=0.02)


FACTORS = {"one": lambda step: 1.0, "falling": lambda step: 0.9**step}
options = {
    "batch_size": 32, "micro_batches": 8, "steps": 12, "optimizer": rekindle.SGD(lr=0.02, momentum=0.9),
    "checkpoint_interval": "0s", "loader_threads": 0,
}  # fmt: skip
for argument in sys.argv[1:]:
    name, _, value = argument.partition("=")
    if argument == "optimizer=own":
        options["optimizer"] = lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True)
        options["schedule"] = lambda step: 0.99**step
    elif name == "lamb":  # its value is the file
        options["optimizer"] = lambda parameters, fails=value: Lamb(parameters, 0.02, fails)
    elif argument == "optimizer=counting":
        options["optimizer"] = lambda parameters: Counting(parameters, lr=0.05, momentum=0.9)
    elif argument == "optimizer=muon":
        options["optimizer"] = muon
    elif name == "schedule" and value in FACTORS:
        options[name] = FACTORS[value]
    elif name == "optimizer":
        options[name] = getattr(rekindle, value)(lr=0.01)
    else:
        options[name] = ast.literal_eval(value)


def compiled():
    model = Net()
    model.compile(backend="aot_eager")  # needs no C++ compiler
    return model


rekindle.run(
    model=compiled if options.pop("compile", False) else Net, loss=loss, train_data=lambda: Samples(200),
    test_data=lambda: Samples(40), metrics=metrics, **options,
)  # fmt: skip
print("after run()")
