"""The gradients of a micro-batch: each goes into the library's memory when it is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rekindle._device import Device, copy_all


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
        for parameter in self._parameters:
            parameter.grad = None

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
        else:  # at once, while it is in the processor's cache
            self._places[index].copy_(dense)
        self._micro_batch.received[index] = 1
