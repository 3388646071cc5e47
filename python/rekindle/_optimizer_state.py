"""The state of a run's own optimizer (_optimizer.py), back in an optimizer of the same class."""

from __future__ import annotations

import math

import torch
from torch import nn

from rekindle._errors import RekindleError
from rekindle._names import parameters_of
from rekindle._optimizer import HAS_STATE, PRESENT


def load_state(
    optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, torch.Tensor], averaged: bool
) -> None:
    """Gives an optimizer the state that OwnOptimizer.save() left in a checkpoint. `averaged`: "ema" is the run's."""
    if PRESENT not in tensors:
        raise RekindleError("the run's optimizer is one of rekindle", "leave the optimizer out")
    parameters = parameters_of(model)
    present = dict(zip(parameters, tensors[PRESENT].tolist()))
    optimizer.state.clear()
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition(".")
        if averaged and key == "ema":
            continue
        group = key.removeprefix("group")
        if group != key and group.isdigit() and int(group) < len(optimizer.param_groups) and tensor.dim() == 0:
            values = optimizer.param_groups[int(group)]
            if not math.isnan(tensor.item()):
                values[name] = type(values[name])(tensor.item()) if values.get(name) is not None else _number(tensor)
        if full_name in parameters or not present.get(name, 0) & HAS_STATE:
            continue
        # OwnOptimizer saves numbers as float64.
        is_number = tensor.dtype == torch.float64 and tensor.dim() == 0
        parameter = parameters[name]
        optimizer.state[parameter][key] = _number(tensor) if is_number else _copy_for(optimizer, parameter, key, tensor)


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
