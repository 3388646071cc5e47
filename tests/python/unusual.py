"""Scripts that do something unusual, for tests: `unusual.py CASE [NAME=VALUE...]`, the values for run()."""

import ast
import copy
import dataclasses
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import rekindle
from rekindle import _linear

CASE = sys.argv[1]
if CASE.startswith("in-places"):
    _linear.LARGE = 1
SAMPLES = [(torch.randn(8, generator=torch.Generator().manual_seed(i)), i % 3) for i in range(64)]
TRAIN, TEST = torch.utils.data.random_split(SAMPLES, [48, 16])


@dataclasses.dataclass
class Sizes:
    """Its types are types, and no text, as in a script of its own."""

    width: int = 8


assert dataclasses.fields(Sizes)[0].type is int


class Net(nn.Module):
    """A block that is applied twice."""

    def __init__(self):
        super().__init__()
        self.first, self.block, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        if CASE == "unfreezes":
            self.block.requires_grad_(False)
        if CASE == "expanded":
            self.register_buffer("grid", torch.linspace(0, 1, 3).expand(4, 3))
        if CASE == "weight-norm":
            self.block = nn.utils.weight_norm(self.block)

    def forward(self, x):
        x = self.first(x)
        self.calls += 1
        if CASE == "unfreezes" and self.calls > 2:
            self.block.requires_grad_(True)
        for _ in range(2):
            if CASE in ("checkpointed", "in-places-again", "in-places-checkpointed"):
                x = checkpoint(self.block, x, use_reentrant=CASE != "in-places-again")
            else:
                x = self.block(x)
        if CASE == "expanded":
            x = x + self.grid.sum()
        return self.last(x.tanh())


class WithExtraState(Net):
    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        pass


class WithExtraTensor(WithExtraState):
    def get_extra_state(self):
        return torch.ones(2)


class WithTeacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = Net()
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for mine, other in zip(self.teacher.parameters(), self.student.parameters()):
                mine.lerp_(other, 0.1)
        return self.student(x) + self.teacher(x)


def compiled():
    def backend(graph, inputs):
        if any(isinstance(size, torch.SymInt) for value in inputs for size in getattr(value, "shape", [value])):
            raise RuntimeError("compiled for any shape")
        return graph.forward

    model = Net()
    model.compile(backend=backend)
    return model


def compiled_by_trainers():
    def backend(graph, inputs):
        if "--describe" in sys.orig_argv:
            raise RuntimeError("compiled for the description")
        return graph.forward

    model = Net()
    model.compile(backend=backend)
    return model


class LargeSamples(torch.utils.data.Dataset):
    """Each becomes what torch's sum of many numbers makes of it, which depends on the number of threads."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        values = torch.randn(300_000)
        return torch.stack([values.sum(), *values[:7]]), index % 3


class Texts(torch.utils.data.Dataset):
    """More than a pipe takes at once, and no tensors, which would go through shared memory."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        return chr(97 + index % 3) * 400_000, index % 3


class Unreadable(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        if index == 7:
            raise ValueError("cannot read a\udcffb.png")  # as os.listdir() gives a name that is no UTF-8
        return SAMPLES[index]


class Noisy(torch.optim.SGD):
    """Langevin dynamics."""

    def step(self, closure=None):
        super().step()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.add_(torch.randn_like(parameter), alpha=1e-3)


class Counting(torch.optim.SGD):
    """Has no state but a number in its groups, which its first step makes."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            group["lr"] /= group["count"]
        super().step()


class Largest(torch.optim.SGD):
    """Its number is whole until there is a gradient. A step of the groups counts gradients, a state begins with one."""

    def step(self, closure=None):
        for group in self.param_groups:
            group.setdefault("seen", 0)
            for parameter in group["params"]:
                state = self.state[parameter]
                state["largest"] = max(state.get("largest", 0), parameter.grad.norm().item())
                if parameter.grad.any():
                    group["seen"] += 1
                    state.setdefault("first", parameter.grad.clone())
                parameter.data.add_(state.get("first", parameter.grad), alpha=1e-3 * state["largest"] / (1 + group["seen"]))
        super().step()


class Late(torch.optim.SGD):
    """Another type, or a number that float64 has not, in its sixth step."""

    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["steps"] = state.get("steps", 0) + 1
                late = state["steps"] == 6
                state["kept"] = 0.5 if late and CASE == "late-float" else 2**53 + 1 if late else 1


class Wrapped(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.inner = torch.optim.Adam(self.param_groups[0]["params"])

    def step(self):
        self.inner.step()


def loss(model, batch):
    if CASE == "texts":
        batch = torch.tensor([[ord(letter) - 97.0 for letter in text[:8]] for text in batch[0]]), batch[1]
    if CASE == "own-backward" and torch.is_grad_enabled():  # and its result is used
        functional.cross_entropy(model(batch[0]), batch[1]).backward()
        slope = sum(parameter.grad.abs().sum() for parameter in model.parameters())
        model.zero_grad()
        return functional.cross_entropy(model(batch[0]), batch[1]) * (1 + 0.01 * slope)
    outputs = model(batch[0])
    if CASE == "infinite" and outputs.requires_grad and (batch[0] == TRAIN[0][0]).all(1).any():  # once an epoch
        outputs.register_hook(lambda gradient: gradient * torch.inf)
    return functional.cross_entropy(outputs, batch[1])


OPTIMIZERS = {
    "noisy": lambda parameters: Noisy(parameters, lr=0.1),
    "counting": lambda parameters: Counting(parameters, lr=0.1),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "weight-norm": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
    "wrapped": Wrapped,
    "largest": lambda parameters: Largest(parameters, lr=0.1),
    "late-float": lambda parameters: Late(parameters, lr=0.1),
    "late-large": lambda parameters: Late(parameters, lr=0.1),
}  # fmt: skip
MODELS = {"extra": WithExtraState, "extra-tensor": WithExtraTensor, "teacher": WithTeacher, "lazy": lambda: nn.LazyLinear(3),
          "shapes": compiled, "described": compiled_by_trainers}
DATA = {"large": LargeSamples, "unreadable": Unreadable, "texts": Texts}
options = {"batch_size": 16, "micro_batches": 4, "steps": 12, "optimizer": OPTIMIZERS.get(CASE, rekindle.SGD(lr=0.1))}
options |= {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in sys.argv[2:])}
if CASE == "shapes":  # of batches: 4 to 6 samples
    options["collate"] = lambda samples: torch.utils.data.default_collate(samples + samples[: samples[0][1]])


def metrics(model, batch):
    outputs = model(batch[0])
    assert CASE != "half" or outputs.dtype == torch.bfloat16
    return {"accuracy": ((outputs.argmax(1) == batch[1]).sum().item(), len(batch[1]))}


if CASE != "texts":
    options |= {"test_data": TEST, "metrics": metrics}
rekindle.run(model=MODELS.get(CASE, Net), loss=loss, train_data=DATA.get(CASE, TRAIN), **options)
