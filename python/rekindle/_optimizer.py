"""An optimizer of torch.optim, or of anybody, that the script makes: its state as tensors of the run.

The state begins when the optimizer makes it, in its first step. So that a run knows names and shapes before, a copy of
the model makes two steps with gradients of zero and two with others. What an optimizer keeps anywhere else, and changes
later (_hidden.py), would be lost when a trainer is copied to: that is an error of the step.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from torch import nn

from rekindle._errors import ONE_OPTIMIZER, RekindleError, are_several, can_take, first_parameter, one_line
from rekindle._hidden import Hidden, Number
from rekindle._names import parameters_of

DTYPES = {
    torch.float32: "float32", torch.float64: "float64", torch.int64: "int64", torch.int32: "int32",
    torch.uint8: "uint8", torch.bool: "uint8", torch.bfloat16: "bfloat16", torch.float16: "float16",
}  # fmt: skip
PRESENT = "present"  # a tensor of our own: which parameters have a state, one number for each
Make = Callable[[list], torch.optim.Optimizer]


def make_optimizer(make: Make, parameters: Mapping[str, nn.Parameter]) -> torch.optim.Optimizer:
    optimizer = make(list(parameters.items() if first_parameter(make) == "named_parameters" else parameters.values()))
    if not isinstance(optimizer, torch.optim.Optimizer):
        hint = ONE_OPTIMIZER if are_several(optimizer) else "return a torch.optim.Optimizer"
        raise RekindleError(f"optimizer made {type(optimizer).__name__}", hint)
    given = {id(parameter) for parameter in parameters.values()}
    for group in optimizer.param_groups:
        if "initial_lr" in group:
            raise RekindleError("the optimizer has a scheduler of its rates, which would never step", "give run() a schedule=; its groups must have no initial_lr")
        for parameter in group["params"]:
            if id(parameter) not in given:
                raise RekindleError(
                    f"the optimizer updates a parameter of shape {list(parameter.shape)} that is not among those that it was given",
                    "make it a part of the module, and use the argument of the function: only the model's parameters are trained",
                )
    return optimizer


def _group_numbers(optimizer: torch.optim.Optimizer) -> dict[tuple[int, str], int | float]:
    """The numbers in its parameter groups, without the rates, which are the schedule's."""
    return {
        (i, key): value
        for i, group in enumerate(optimizer.param_groups)
        for key, value in group.items()
        if key != "lr" and isinstance(value, Number)
    }


def _copy_of(parameter: nn.Parameter) -> nn.Parameter:
    """With what the script has noted on it, as a group that it belongs to."""
    made = nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
    made.__dict__.update(vars(parameter))
    return made


def _check_no_other(optimizer: torch.optim.Optimizer) -> None:
    for key, value in vars(optimizer).items():
        if isinstance(value, torch.optim.Optimizer) and value.state is not optimizer.state:
            raise RekindleError(f"the optimizer keeps another one in {key}", "its state could not be saved: use one optimizer")


LACKS = "use another optimizer; for a part that is frozen at first: one of rekindle, or torch.set_grad_enabled() in place of requires_grad"
KEEP = "keep it as a number in param_groups or in the state of a parameter: only these are saved"
HAS_STATE, _SAVED, FIRST_MISSING = 1, 2, 4  # in PRESENT; from FIRST_MISSING on a bit for each key that is not there
MOST_KEYS = 28  # of a parameter, that have such a bit
_ABSENT = float("nan")  # a number of a group that is not there yet


def _fits(value: Any, kind: Any) -> bool:
    """Whether a checkpoint keeps it: numbers are float64 there, and come back with the type that they had first."""
    if isinstance(kind, torch.dtype):
        return isinstance(value, torch.Tensor) and value.dtype == kind
    if not isinstance(value, Number) or not math.isfinite(value):
        return isinstance(value, Number) and issubclass(kind, float)
    return kind(value) == value and float(value) == value


def _kind_of(value: Any) -> Any:
    return value.dtype if isinstance(value, torch.Tensor) else type(value)


def _refuse_kind(value: Any, kind: Any, name: str) -> NoReturn:
    became, was = (getattr(each, "__name__", each) for each in (_kind_of(value), kind))
    raise RekindleError(
        f"the optimizer's {name} became {value if became == was else became}, and was {was} in its first steps",
        "keep its type, in which it is saved: begin with 0.0, not 0",
    )


class Template:
    """The state that an optimizer makes for a model."""

    def __init__(self, make: Make, model: nn.Module) -> None:
        parameters = {name: _copy_of(parameter) for name, parameter in parameters_of(model).items()}
        optimizer = make_optimizer(make, parameters)
        for parameter in parameters.values():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        before = _group_numbers(optimizer)
        hidden = Hidden(optimizer, list(parameters.values()), saved=None)
        if not can_take(optimizer.step, 0):
            raise RekindleError("the optimizer's step() needs an argument", "one that needs a closure is not supported")
        try:
            optimizer.step()
            optimizer.step()
            for parameter in parameters.values():  # some begin to count, or to keep, with the first that is not zero
                if parameter.requires_grad:
                    parameter.grad.copy_(torch.linspace(-1e-3, 1e-3, parameter.numel(), device=parameter.device).view(parameter.shape))
            optimizer.step()
            optimizer.step()
        except Exception as error:
            raise RekindleError(f"the optimizer's step() failed: {one_line(error)}", "it gets dense gradients, here of zero and then small ones") from error  # fmt: skip
        _check_no_other(optimizer)
        if (name := hidden.changed()) is not None:
            raise RekindleError(f"the optimizer's steps change its {name}", KEEP)
        known = {id(parameter) for parameter in parameters.values()}
        if any(id(key) not in known for key in optimizer.state):
            raise RekindleError("the optimizer keeps a state that belongs to no parameter", "use another optimizer")
        # For each entry: parameter, key, and an example of the value, a tensor without elements. Numbers become float64.
        self.entries: list[tuple[str, str, Any]] = []
        # Only shapes and types: the state is in the optimizer.
        self.tensors = [(PRESENT, torch.empty(len(parameters), dtype=torch.int32, device="meta"))]
        for name, parameter in parameters.items():
            for key, value in optimizer.state[parameter].items() if parameter in optimizer.state else ():
                if value is None:
                    continue
                if not isinstance(value, (torch.Tensor, int, float)):
                    raise RekindleError(f"the optimizer keeps {key} as {type(value).__name__}", "tensors and numbers can be saved")  # fmt: skip
                tensor = value if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=torch.float64)
                if tensor.dtype not in DTYPES:
                    raise RekindleError(f"the optimizer keeps {key} as {tensor.dtype}", "use another type")
                is_tensor = isinstance(value, torch.Tensor)
                example = torch.empty(0, dtype=value.dtype, device=value.device) if is_tensor else value
                self.entries.append((name, key, example))
                self.tensors.append((f"{key}.{name}", torch.empty_like(tensor, device="meta")))
        # Numbers of the groups that steps change, with their types.
        self.of_groups = {
            place: type(value) for place, value in _group_numbers(optimizer).items() if before.get(place) != value
        }
        self.tensors += [(f"group{i}.{key}", torch.empty((), dtype=torch.float64, device="meta")) for i, key in self.of_groups]

    def specs(self) -> list[dict[str, Any]]:
        """As in app/script.hpp."""
        return [
            {"name": name, "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "role": "optimizer"}
            for name, tensor in self.tensors
        ]


class OwnOptimizer:
    """The optimizer of a trainer's model."""

    def __init__(self, make: Make, model: nn.Module, template: Template, memory: list[torch.Tensor]) -> None:
        """`memory`: the library's, of the host, for each tensor of the template."""
        self.parameters = parameters_of(model)
        self.optimizer = make_optimizer(make, self.parameters)
        self.entries, self.of_groups = template.entries, template.of_groups
        self.kinds = {(name, key): _kind_of(example) for name, key, example in self.entries}
        self.bits: dict[str, dict[str, int]] = {name: {} for name in self.parameters}  # in PRESENT, if the key is missing
        for name, key, _ in self.entries:
            if (number := len(self.bits[name])) < MOST_KEYS:
                self.bits[name][key] = FIRST_MISSING << number
        self.present, *self.memory = memory
        self.memory_of_groups = self.memory[len(self.entries) :]
        # Most begin their state in the first step; a few in their constructor.
        state = self.optimizer.state
        self.initial_state = {name: copy.deepcopy(state[each]) for name, each in self.parameters.items() if each in state}
        self.initial_groups = {
            (i, key): self.optimizer.param_groups[i][key]
            for i, key in self.of_groups
            if key in self.optimizer.param_groups[i]
        }
        self.hidden = Hidden(self.optimizer, list(self.parameters.values()), set(self.of_groups))
        self.rates = [group.get("lr") for group in self.optimizer.param_groups]

    def _check_kept(self, thoroughly: bool = False) -> None:
        """Whether a checkpoint has all that the last step changed."""
        if (hidden := self.hidden.changed(thoroughly)) is not None:
            raise RekindleError(f"the optimizer changed its {hidden}, which its first steps did not", KEEP)
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if value is None:
                    continue
                if (kind := self.kinds.get((name, key))) is None:
                    raise RekindleError(f"the optimizer made {key} of {name}, which its first steps did not", LACKS)
                if not _fits(value, kind):
                    _refuse_kind(value, kind, f"{key} of {name}")
        for (i, key), kind in self.of_groups.items():
            value = self.optimizer.param_groups[i].get(key)
            if value is not None and not _fits(value, kind):
                _refuse_kind(value, kind, f"param_groups[{i}][{key!r}]")

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
        self._copy_lent(gradients)
        self._check_kept()

    def _copy_lent(self, gradients: list[torch.Tensor | None]) -> None:
        """Copies the gradients that the optimizer keeps: the next step has others in the same memory."""
        lent = {gradient.untyped_storage().data_ptr() for gradient in gradients if gradient is not None}
        for state in self.optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in lent:
                    state[key] = value.clone()

    def save(self) -> None:
        """Copies the state to the library's memory."""
        self._check_kept(thoroughly=True)
        state = self.optimizer.state
        for i, (name, parameter) in enumerate(self.parameters.items()):
            of_parameter = state.get(parameter) or {}
            missing = sum(bit for key, bit in self.bits[name].items() if of_parameter.get(key) is None)
            self.present[i] = _SAVED | (HAS_STATE | missing if of_parameter else 0)
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
        for (i, key), memory in zip(self.of_groups, self.memory_of_groups):
            value = self.optimizer.param_groups[i].get(key)
            memory.fill_(_ABSENT if value is None else value)

    def load(self) -> None:
        """Takes the state from the library's memory."""
        present = dict(zip(self.parameters, self.present.tolist()))
        self.optimizer.state.clear()
        was_saved = any(present.values())
        if not was_saved:
            for name, state in self.initial_state.items():
                self.optimizer.state[self.parameters[name]] = copy.deepcopy(state)
        for (name, key, value), memory in zip(self.entries, self.memory):
            if not present[name] & HAS_STATE or present[name] & self.bits[name].get(key, 0):
                continue
            if isinstance(value, torch.Tensor):
                loaded = memory.to(value.device, value.dtype, copy=True)
            else:
                loaded = type(value)(memory.item())
            self.optimizer.state[self.parameters[name]][key] = loaded
        for (i, key), memory in zip(self.of_groups, self.memory_of_groups):
            group = self.optimizer.param_groups[i]
            if was_saved and not math.isnan(memory.item()):
                group[key] = self.of_groups[i, key](memory.item())
            elif (i, key) in self.initial_groups:
                group[key] = self.initial_groups[i, key]
            else:
                group.pop(key, None)
