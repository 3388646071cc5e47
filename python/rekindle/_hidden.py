"""What an optimizer keeps outside of what a checkpoint has: if steps change it, a trainer that is copied to would lack it.

A checkpoint has the state of each parameter, and the numbers of the groups that the first steps change. The rates are the
schedule's. All else that can be reached from the optimizer has to stay as it was made: numbers, text, tensors, arrays and
generators, also within lists, dictionaries and objects of the optimizer's own package.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

Number = (int, float)  # bool, too
OF_TORCH = {"_warned_capturable_if_run_uncaptured", "_need_device_dtype_check_for_fused"}  # attributes that are no state
FIRST_STEPS = 3  # whose tensors are all compared; later ones when the optimizer notes a change in place, and at a save


class Hidden:
    """What an optimizer keeps now, to compare with later."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], saved: set[tuple[int, str]] | None) -> None:
        """`saved`: the numbers in its groups that are part of the state, as (group, key). None: all of them."""
        self.optimizer, self.parameters, self.saved = optimizer, parameters, saved
        self.package = type(optimizer).__module__.partition(".")[0]
        self.looks = 0
        self.values = {name: _Kept(value) for name, value in self._leaves()}

    def changed(self, thoroughly: bool = False) -> str | None:
        """The name of something that is not as it was."""
        self.looks += 1
        thoroughly = thoroughly or self.looks <= FIRST_STEPS
        found = 0
        for name, value in self._leaves():
            kept = self.values.get(name)
            if kept is None or not kept.equals(value, thoroughly):
                return name
            found += 1
        if found < len(self.values):
            names = {name for name, _ in self._leaves()}
            return next(name for name in self.values if name not in names)
        return None

    def _leaves(self) -> Iterator[tuple[str, Any]]:
        """Numbers and the like, each with the way to it."""
        walk = _Walk(self.optimizer, self.parameters, self.package)
        for i, group in enumerate(self.optimizer.param_groups):
            for key, value in group.items():
                is_saved = isinstance(value, Number) if self.saved is None else (i, key) in self.saved
                if key not in ("params", "lr") and not is_saved:
                    yield from walk.leaves(value, f"param_groups[{i}][{key!r}]")
        for key, value in vars(self.optimizer).items():
            if key not in OF_TORCH:
                yield from walk.leaves(value, key)


class _Walk:
    """One way through all that can be reached."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], package: str) -> None:
        self.package = package
        self.parameters = {id(parameter): i for i, parameter in enumerate(parameters)}
        self.memory = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self.seen = {id(optimizer), id(optimizer.state), id(optimizer.param_groups)}
        self.seen |= {id(group) for group in optimizer.param_groups}

    def leaves(self, value: Any, name: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor):
            # A parameter is state, and so is what lies in its memory.
            if value.layout == torch.strided and not value.is_meta and value.untyped_storage().data_ptr() not in self.memory:
                yield name, value
        elif _is_plain(value):
            yield name, value
        elif (state := _state_of_generator(value)) is not None:
            yield name, state
        elif id(value) not in self.seen and not _is_cache(value):
            self.seen.add(id(value))
            for part, each in self._parts(value):
                yield from self.leaves(each, name + part)

    def _parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, each in value.items():
                yield f"[{self._name(key)}]", each
        elif isinstance(value, (list, tuple, deque)):
            for i, each in enumerate(value):
                yield f"[{i}]", each
        elif isinstance(value, (set, frozenset)):
            yield "", str(sorted(self._name(each) for each in value))
        elif isinstance(value, torch.optim.Optimizer) or self._is_own(value):
            for key, each in vars(value).items():
                if key not in OF_TORCH:
                    yield f".{key}", each

    def _name(self, each: Any) -> str:
        """What stays the same for a tensor whose values change."""
        number = self.parameters.get(id(each))
        if number is not None:
            return f"parameter {number}"
        return f"tensor {id(each)}" if isinstance(each, torch.Tensor) else repr(each)

    def _is_own(self, value: Any) -> bool:
        """Whether it is an object of the optimizer's package: others, as a logger, lead to all that the process has."""
        of = type(value).__module__.partition(".")[0]
        return of == self.package and of != "torch" and not isinstance(value, nn.Module) and hasattr(value, "__dict__")


class _Kept:
    """A value as it was."""

    def __init__(self, value: Any) -> None:
        self.value, self.version, self.original = value, None, None
        if isinstance(value, torch.Tensor):
            self.value, self.version, self.original = value.detach().clone(), value._version, value
        elif _is_array(value):
            self.value = value.copy()

    def equals(self, value: Any, thoroughly: bool) -> bool:
        if isinstance(value, torch.Tensor) or isinstance(self.value, torch.Tensor):
            if not (isinstance(value, torch.Tensor) and isinstance(self.value, torch.Tensor)):
                return False
            if not thoroughly and value is self.original and value._version == self.version:
                return True
            return _equal_tensors(value.detach(), self.value)
        if _is_array(value) or _is_array(self.value):
            return _is_array(value) and _is_array(self.value) and value.dtype == self.value.dtype and value.tobytes() == self.value.tobytes()
        return bool(value == self.value) or (value != value and self.value != self.value)


def _equal_tensors(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Two that are not numbers in the same places are equal."""
    if (one.dtype, one.shape, one.device) != (other.dtype, other.shape, other.device):
        return False
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, complex, str, bytes)) or _is_of_numpy(value, "generic", "ndarray")


def _is_array(value: Any) -> bool:
    return _is_of_numpy(value, "ndarray")


def _is_of_numpy(value: Any, *names: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, tuple(getattr(numpy, name) for name in names))


def _state_of_generator(value: Any) -> Any:
    """Of a generator of random numbers, else None."""
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, random.Random):
        return str(value.getstate())
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return str(value.bit_generator.state)
    if numpy is not None and isinstance(value, numpy.random.RandomState):
        return str(value.get_state(legacy=False))
    return None


def _is_cache(value: Any) -> bool:
    """That of RAdam and its like: row `step % 10` has what follows from the step, and is computed again if it is of another."""
    return (
        isinstance(value, list)
        and len(value) == 10
        and all(isinstance(row, list) and len(row) == 3 for row in value)
        and all(row[0] is None or (isinstance(row[0], int) and row[0] % 10 == i) for i, row in enumerate(value))
    )
