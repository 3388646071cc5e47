"""Parameters and buffers of a module, each once, with their names in state_dict()."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn


class Buffer(NamedTuple):
    module: nn.Module
    attribute: str
    path: str  # differs from the name in state_dict() if a hook of the module changes that
    persistent: bool

    def value(self) -> torch.Tensor:
        return getattr(self.module, self.attribute)


def names_by_id(state: Mapping[str, Any]) -> dict[int, list[str]]:
    """By the id of each tensor in state_dict(keep_vars=True): of one that modules share, all names."""
    names: dict[int, list[str]] = {}
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            names.setdefault(id(value), []).append(name)
    return names


def parameters_of(model: nn.Module, names: dict[int, list[str]] | None = None) -> dict[str, nn.Parameter]:
    names = names_by_id(model.state_dict(keep_vars=True)) if names is None else names
    return {names.get(id(each), [path])[0]: each for path, each in model.named_parameters()}


def buffers_of(model: nn.Module) -> Iterator[Buffer]:
    """Those that have a value, also such that share it."""
    for path, module in model.named_modules():
        for attribute, value in module._buffers.items():
            if value is not None:
                persistent = attribute not in module._non_persistent_buffers_set
                yield Buffer(module, attribute, f"{path}.{attribute}" if path else attribute, persistent)
