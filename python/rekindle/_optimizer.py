"""An optimizer of torch.optim, or of anybody, that the script makes: its state as tensors of the run.

The state begins when the optimizer makes it, in its first step. So that a run knows names and shapes before, a copy of
the model makes one step with gradients of zero.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rekindle._errors import RekindleError

DTYPES = {
    torch.float32: "float32", torch.float64: "float64", torch.int64: "int64", torch.int32: "int32",
    torch.uint8: "uint8", torch.bool: "uint8", torch.bfloat16: "bfloat16", torch.float16: "float16",
}  # fmt: skip
PRESENT = "present"  # a tensor of our own: which parameters have a state, one number for each
Make = Callable[[list], torch.optim.Optimizer]


def make_optimizer(make: Make, model: nn.Module) -> torch.optim.Optimizer:
    optimizer = make(list(model.parameters()))
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise RekindleError(f"optimizer made {type(optimizer).__name__}", "return a torch.optim.Optimizer")
    return optimizer


class Template:
    """The state that an optimizer makes for a model."""

    def __init__(self, make: Make, model: nn.Module) -> None:
        trial = copy.deepcopy(model)
        optimizer = make_optimizer(make, trial)
        for parameter in trial.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        try:
            optimizer.step()
        except TypeError as error:
            raise RekindleError(f"the optimizer's step() failed: {error}", "one that needs a closure is not supported") from error  # fmt: skip
        parameters = dict(trial.named_parameters())
        known = {id(parameter) for parameter in parameters.values()}
        if any(id(key) not in known for key in optimizer.state):
            raise RekindleError("the optimizer keeps a state that belongs to no parameter", "use another optimizer")
        # For each entry: parameter, key, and the value that a new state has. Numbers become float64.
        self.entries: list[tuple[str, str, Any]] = []
        self.tensors: list[tuple[str, torch.Tensor]] = [(PRESENT, torch.zeros(len(parameters), dtype=torch.int32))]
        for name, parameter in parameters.items():
            for key, value in optimizer.state[parameter].items() if parameter in optimizer.state else ():
                if value is None:
                    continue
                if not isinstance(value, (torch.Tensor, int, float)):
                    raise RekindleError(f"the optimizer keeps {key} as {type(value).__name__}", "tensors and numbers can be saved")  # fmt: skip
                tensor = value if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=torch.float64)
                if tensor.dtype not in DTYPES:
                    raise RekindleError(f"the optimizer keeps {key} as {tensor.dtype}", "use another type")
                self.entries.append((name, key, value))
                self.tensors.append((f"{key}.{name}", torch.zeros_like(tensor)))

    def specs(self) -> list[dict[str, Any]]:
        """As in app/script.hpp."""
        return [
            {"name": name, "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "role": "optimizer"}
            for name, tensor in self.tensors
        ]


class OwnOptimizer:
    """The optimizer of a trainer's model."""

    def __init__(self, make: Make, model: nn.Module, template: Template, memory: list[torch.Tensor]) -> None:
        """`memory`: the library's, for each tensor of the template."""
        self.optimizer = make_optimizer(make, model)
        self.parameters = dict(model.named_parameters())
        self.entries = template.entries
        self.present, *self.memory = memory
        self.rates = [group.get("lr") for group in self.optimizer.param_groups]

    def step(self, factor: float, gradients: list[torch.Tensor | None]) -> None:
        """One update. Parameters whose gradient is None are left alone."""
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            if rate is not None:
                group["lr"] = rate * factor
        for parameter, gradient in zip(self.parameters.values(), gradients):
            parameter.grad = gradient
        self.optimizer.step()
        for parameter in self.parameters.values():
            parameter.grad = None

    def save(self) -> None:
        """Copies the state to the library's memory."""
        state = self.optimizer.state
        for i, parameter in enumerate(self.parameters.values()):
            self.present[i] = int(bool(state.get(parameter)))
        for (name, key, _), memory in zip(self.entries, self.memory):
            value = state.get(self.parameters[name], {}).get(key)
            if value is None:
                memory.zero_()
            elif isinstance(value, torch.Tensor):
                if value.shape != memory.shape:
                    raise RekindleError(f"the optimizer's {key} of {name} became {list(value.shape)}", "keep shapes")
                memory.copy_(value.detach())
            else:
                memory.fill_(value)

    def load(self) -> None:
        """Takes the state from the library's memory."""
        has_state = dict(zip(self.parameters, self.present.tolist()))
        self.optimizer.state.clear()
        for (name, key, value), memory in zip(self.entries, self.memory):
            if not has_state[name]:
                continue
            loaded = memory.to(value.dtype).clone() if isinstance(value, torch.Tensor) else type(value)(memory.item())
            self.optimizer.state[self.parameters[name]][key] = loaded


def load_state(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Gives an optimizer the state that OwnOptimizer.save() left in a checkpoint."""
    if PRESENT not in tensors:
        raise RekindleError("the run's optimizer is one of rekindle", "leave the optimizer out")
    parameters = dict(model.named_parameters())
    has_state = dict(zip(parameters, tensors[PRESENT].tolist()))
    optimizer.state.clear()
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition(".")
        if full_name in parameters or not has_state.get(name, False):
            continue
        # OwnOptimizer saves numbers as float64.
        is_number = tensor.dtype == torch.float64 and tensor.dim() == 0
        optimizer.state[parameters[name]][key] = tensor.item() if is_number else tensor.clone()
