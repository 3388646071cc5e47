"""The gradient of a large weight is computed where the exchange reads it, for layers that are torch.nn.Linear.

Autograd gives such a gradient memory of its own, from which it is copied: for the first linear layer of VGG11 0.4 GB more,
and a twentieth of a step. The bits are those of torch's own layer.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

LARGE = 1 << 22  # floats of a weight for which it pays; smaller ones keep torch's layer

# It came with torch 2.3; before, a compiled model fails at the hooks of a task.
is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)
# Where torch has them no longer, its own layer computes.
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_overrides = getattr(torch._C, "_len_torch_function_stack", lambda: 1)


def _autocasts() -> bool:
    try:
        return torch.is_autocast_enabled("cpu")
    except TypeError:  # before torch 2.4
        return torch.is_autocast_cpu_enabled()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, take_place: Any) -> torch.Tensor:
        """`x`: [samples, inputs]. `take_place`: () -> the weight's place, or None."""
        for_x, for_weight = ctx.needs_input_grad[:2]  # what torch's layer keeps: a script may change the rest in place
        ctx.save_for_backward(x if for_weight else None, weight if for_x else None)
        ctx.take_place = take_place
        return torch.mm(x, weight.t()) if bias is None else torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        of_weight = None
        # A graph of the gradient itself needs all steps from x to it.
        place = ctx.take_place() if for_weight and not torch.is_grad_enabled() else None
        if place is not None:
            torch.mm(dy.t(), x, out=place)
            of_weight = place.detach()  # autograd copies a tensor that somebody else holds, too
        elif for_weight:
            of_weight = torch.mm(dy.t(), x)
        return torch.mm(dy, weight) if for_x else None, of_weight, dy.sum(0) if for_bias else None, None


def _is_plain(layer: nn.Linear, x: torch.Tensor) -> bool:
    """Whether F.linear() would be a product of two matrices, and nobody else takes part in it."""
    return (
        torch.is_grad_enabled()
        and type(x) is torch.Tensor
        and x.dim() >= 2
        and x.is_contiguous()
        # The strides of a single row or column say nothing, and torch chooses the order of the factors by them.
        and 1 < x.shape[-1] < x.numel()
        and x.dtype == torch.float32
        and "bias" in layer._parameters
        and not _autocasts()
        and not _is_transformed()
        and _overrides() == 0
        and getattr(forward_ad, "_current_level", 0) < 0
        and not torch.jit.is_tracing()
    )


class InPlaces:
    """Layers with one of these weights (by id()) compute its gradient in the place that the function returns; None: there
    is none any more.
    """

    def __init__(self, weights: dict[int, Callable[[], torch.Tensor | None]]) -> None:
        self._weights = weights
        self._torchs = nn.Linear.forward

        # One function for all micro-batches: the compiler would compile a model again for another one.
        @functools.wraps(self._torchs)
        def forward(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
            # Not layer.weight: under a parametrization, each look computes it anew, and may change buffers.
            weight = layer._parameters.get("weight")
            take_place = None if is_compiling() else weights.get(id(weight))
            if take_place is None or not _is_plain(layer, x):
                return self._torchs(layer, x)
            y = _Linear.apply(x.flatten(0, -2) if x.dim() > 2 else x, weight, layer.bias, take_place)
            return y.unflatten(0, x.shape[:-1]) if x.dim() > 2 else y

        self._forward = forward

    def _is_replaced(self) -> bool:
        """Whether the script, or a library, has a linear layer of its own."""
        code = getattr(self._torchs, "__code__", None)
        is_torchs = code is not None and code.co_filename == nn.Linear.__init__.__code__.co_filename
        return not is_torchs or nn.Linear.forward is not self._torchs or nn.functional.linear is not torch._C._nn.linear

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """While it lasts. Not for ever: torch.jit reads the source of nn.Linear, for example."""
        if not self._weights or self._is_replaced():
            yield
            return
        nn.Linear.forward = self._forward  # type: ignore[method-assign]
        try:
            yield
        finally:
            if nn.Linear.forward is self._forward:
                nn.Linear.forward = self._torchs  # type: ignore[method-assign]
