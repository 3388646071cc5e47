"""The state of a run's own optimizer (_optimizer.py), back in an optimizer of the same class."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import Any

import torch
from torch import nn

from rekindle._errors import RekindleError
from rekindle._names import names_by_id, parameters_of
from rekindle._optimizer import FIRST_MISSING, HAS_STATE, MOST_KEYS, PRESENT


def load_state(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, torch.Tensor], averaged: bool
) -> None:
    """Gives an optimizer the state that OwnOptimizer.save() left in a checkpoint.

    `tensors`: in the order of the checkpoint's manifest. `averaged`: "ema" is the run's.
    """
    if PRESENT not in tensors:
        raise RekindleError("the run's optimizer is one of rekindle", "leave the optimizer out")
    parameters = parameters_of(model)
    present = dict(zip(parameters, tensors[PRESENT].tolist()))
    of_model = {names[0] for names in names_by_id(model.state_dict(keep_vars=True)).values()}
    with_state = {name: each for name, each in parameters.items() if present[name] & HAS_STATE}
    _check_updates(optimizer, with_state)
    _check_keys(optimizer, with_state, [name for name in tensors if name not in of_model])
    seen = dict.fromkeys(parameters, 0)  # how many keys of each
    optimizer.state.clear()
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition(".")
        if full_name in of_model or (averaged and key == "ema"):
            continue
        group = key.removeprefix("group")
        if group != key and group.isdigit() and int(group) < len(optimizer.param_groups) and tensor.dim() == 0:
            values = optimizer.param_groups[int(group)]
            if not math.isnan(tensor.item()):
                values[name] = type(values[name])(tensor.item()) if values.get(name) is not None else _number(tensor)
        if not present.get(name, 0) & HAS_STATE:
            continue
        seen[name] += 1
        if seen[name] <= MOST_KEYS and present[name] & FIRST_MISSING << seen[name] - 1:
            continue
        # OwnOptimizer saves numbers as float64.
        is_number = tensor.dtype == torch.float64 and tensor.dim() == 0
        parameter = parameters[name]
        optimizer.state[parameter][key] = _number(tensor) if is_number else _copy_for(optimizer, parameter, key, tensor)


def _check_updates(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter]) -> None:
    given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in parameters.items():
        if id(parameter) not in given:
            raise RekindleError(
                f"the optimizer does not update {name}",
                "give one for all the parameters that the run's optimizer had; make it after the model",
            )


def _check_keys(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter], saved: list[str]) -> None:
    """Errors: one of torch.optim makes another state than the saved one, for `parameters`."""
    keys_of: dict[str, set[str]] = {}
    for full_name in saved:
        key, _, name = full_name.partition(".")
        keys_of.setdefault(name, set()).add(key)
    made = _keys_made(optimizer, parameters)
    for name in made:
        keys = keys_of.get(name, set()) - {"ema"}
        if keys != made[name]:
            raise RekindleError(
                f"the optimizer is another one than the run's: that has {_listed(keys)} for {name}, this one {_listed(made[name])}",
                "make it as the run's script does",
            )


def _listed(keys: set[str]) -> str:
    return ", ".join(sorted(keys)) or "no state"


def _keys_made(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter]) -> dict[str, set[str]]:
    """The keys that steps make, of a copy with small parameters. Nothing if that is not known."""
    if not type(optimizer).__module__.startswith("torch.optim."):
        return {}  # a copy of another class may lack attributes, and make a state that depends on shapes
    small: dict[int, Any] = {
        id(each): nn.Parameter(torch.zeros([1] * each.dim(), dtype=each.dtype, device=each.device), requires_grad=False)
        for group in optimizer.param_groups
        for each in group["params"]
    }
    for each in small.values():
        each.grad = torch.zeros_like(each)
    memo = small | {id(optimizer.state): defaultdict(dict)}
    try:
        trial = copy.deepcopy(optimizer, memo)
        trial.step()
        trial.step()
    except Exception:  # noqa: BLE001 - one that needs a closure, or a device that is not here
        return {}
    return {
        name: {key for key, value in trial.state.get(small[id(each)], {}).items() if value is not None}
        for name, each in parameters.items()
    }


def _copy_for(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, key: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.shape == parameter.shape and (tensor.dim() > 0 or key != "step"):
        # In the parameter's memory format: fused steps take the elements as they come in memory.
        return torch.empty_like(parameter, dtype=tensor.dtype, requires_grad=False).copy_(tensor)
    # A single number, the count of steps, stays on the CPU unless the optimizer wants it beside the parameter: as in
    # torch's load_state_dict().
    of_device = key == "step" and any(
        group.get("fused") or group.get("capturable")
        for group in optimizer.param_groups
        if any(each is parameter for each in group["params"])
    )
    return tensor.to(parameter.device if tensor.dim() > 0 or of_device else tensor.device, copy=True)


def _number(tensor: torch.Tensor) -> int | float:
    """What an optimizer had as a number: a count is whole."""
    value = tensor.item()
    return int(value) if float(value).is_integer() else value
