"""Recurrent layers on a GPU, which cuDNN computes with a state and memory of its own."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def set_up_recurrent_layers() -> None:
    """The weights stay in the memory of the state, so flatten_parameters() does nothing, which costs cuDNN a copy. And
    cuDNN draws the dropout between layers from a state that lives as long as the process: the bits would depend on what
    a trainer computed before. Such layers are computed by torch's own kernels, which are slower.
    """
    nn.RNNBase.flatten_parameters = lambda self: None  # type: ignore[method-assign]
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
    for layer in (nn.RNN, nn.LSTM, nn.GRU):
        layer.forward = _without_cudnn(layer.forward)  # type: ignore[method-assign]


def _without_cudnn(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def wrapped(layer: nn.RNNBase, *args: Any, **kwargs: Any) -> Any:
        before = torch.backends.cudnn.enabled
        if layer.training and layer.dropout > 0 and layer.num_layers > 1:
            torch.backends.cudnn.enabled = False
        try:
            return forward(layer, *args, **kwargs)
        finally:
            torch.backends.cudnn.enabled = before

    return wrapped
