"""The gradients of a micro-batch: each goes into the library's memory when it is complete."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rekindle import _linear
from rekindle._device import Device, copy_all
from rekindle._linear import InPlaces


class Gradients:
    """Of the parameters of a model, in their order."""

    def __init__(
        self, device: Device, parameters: list[torch.Tensor], offsets: list[int], look_for_abort: Callable[[], None]
    ) -> None:
        """`offsets`: of each parameter, in floats. `look_for_abort` may raise, and is called between two gradients."""
        self._device, self._parameters, self._offsets, self._look_for_abort = device, parameters, offsets, look_for_abort
        self._memory: dict[int, list[torch.Tensor]] = {}  # its address -> a view for each parameter
        self._micro_batch: Any = None
        self._in_backward = False  # of the micro-batch's loss
        self._places: list[torch.Tensor] = []
        self._kept: dict[int, torch.Tensor] = {}  # those that are not in their places yet, by the parameter's number
        self._taken: set[int] = set()  # the parameters whose gradient was computed in its place
        # On a GPU, the gradients of many tensors are copied at once.
        self._linear = InPlaces({} if device.is_late else {
            id(parameter): functools.partial(self._take_place, i)
            for i, parameter in enumerate(parameters)
            if parameter.numel() >= _linear.LARGE and type(parameter) is nn.Parameter
        })  # fmt: skip
        for i, parameter in enumerate(parameters):
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._hook(i))

    def places_in(self, address: int) -> list[torch.Tensor]:
        """A view for each parameter of the memory of a gradient."""
        if address not in self._memory:
            self._memory[address] = [
                self._device.memory(address + 4 * offset, parameter)
                for offset, parameter in zip(self._offsets, self._parameters)
            ]
        return self._memory[address]

    def begin(self, micro_batch: Any) -> None:
        self._micro_batch, self._places, self._kept = micro_batch, self.places_in(micro_batch.gradient), {}
        self._taken.clear()
        for parameter in self._parameters:
            parameter.grad = None

    def in_places(self) -> contextlib.AbstractContextManager[None]:
        """Around the script's loss, and around the backward pass, in which torch.utils.checkpoint computes parts again."""
        return self._linear.on()

    def backward(self, loss: torch.Tensor) -> None:
        self._in_backward = True
        try:
            loss.backward()
        finally:
            self._in_backward = False
        # Of parameters that have no hook, because they were frozen at first, or that only the script's own pass reached.
        for index, parameter in enumerate(self._parameters):
            self._take(index, parameter)
        if self._kept:
            copy_all([self._places[i] for i in self._kept], list(self._kept.values()))
        self._kept = {}

    def _take_place(self, index: int) -> torch.Tensor | None:
        """For the first gradient of a parameter in a micro-batch: there may be others to add."""
        if not self._in_backward or index in self._taken or self._micro_batch.received[index]:
            return None
        self._taken.add(index)
        return self._places[index]

    def _hook(self, index: int) -> Callable[[torch.Tensor], None]:
        def store(parameter: torch.Tensor) -> None:
            if self._in_backward:  # else the loss has a backward pass of its own, and a use for its result
                self._look_for_abort()
                self._take(index, parameter)

        return store

    def _take(self, index: int, parameter: torch.Tensor) -> None:
        """Adds the gradient, of which there may be several parts: each block under torch.utils.checkpoint has one."""
        gradient, parameter.grad = parameter.grad, None
        if gradient is None:
            return
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        if self._device.is_late:
            self._kept[index] = self._kept[index] + dense if index in self._kept else dense
        elif self._micro_batch.received[index]:
            self._places[index].add_(dense)
        elif not _is_same(dense, self._places[index]):  # at once, while it is in the processor's cache
            self._places[index].copy_(dense)
        self._micro_batch.received[index] = 1


def _is_same(tensor: torch.Tensor, place: torch.Tensor) -> bool:
    """Whether it is the memory of the place itself, which has its shape."""
    return tensor.data_ptr() == place.data_ptr() and tensor.is_contiguous()
