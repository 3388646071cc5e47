"""Metrics: sums with their counts, from a loss and from `metrics`."""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from rekindle._errors import RekindleError, text_bytes

MOST_METRICS = 15  # RK_METRICS
# What the lines of metrics.jsonl have anyway, or would be taken for (actors/run_records.cpp, run/records.cpp).
_OF_LINES = {
    "step", "epoch", "loss", "lr", "images_per_second", "trainers", "generation", "attempt", "step_ms", "data_ms", "compute_ms",
    "exchange_ms", "update_ms", "checkpoint_ms", "at", "gradient_norm", "voided", "event", "why", "job", "cause", "node",
    "successor", "requeued", "restarts", "number",
}  # fmt: skip


def split(found: Any) -> tuple[Any, Mapping[str, Any]]:
    """What a loss returned: itself, and the metrics that may come with it."""
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
        return found
    return found, {}


def number(value: Any) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _number_of(metric: str, value: Any) -> float:
    """Errors: it is a matrix, as of confusions, or no number at all."""
    shape = tuple(getattr(value, "shape", ()))
    if math.prod(shape) == 1:
        with contextlib.suppress(TypeError, ValueError):
            return number(value)
    what = f"of shape {list(shape)}" if shape else type(value).__name__
    raise RekindleError(
        f"metric {metric} has a part that is {what}",
        f"return one number each, (sum, count), in at most {MOST_METRICS} pairs: the sums of a matrix have a name each",
    )


def sums_of(found: Any) -> dict[str, tuple[float, int]]:
    """Metrics as numbers. Tensors may be on a GPU, and part of a graph: each is read once, for each read waits."""
    pairs = hasattr(found, "items") and all(isinstance(pair, tuple) and len(pair) == 2 for pair in found.values())
    if not pairs:
        raise RekindleError("metrics did not return pairs", 'return {"accuracy": (sum, count), ...}')
    sums = {name: (_number_of(name, total), _number_of(name, count)) for name, (total, count) in found.items()}
    for name, (_, count) in sums.items():
        if not count.is_integer() or count < 0:
            raise RekindleError(
                f"the count of metric {name} is {count}, and no whole number",
                "give (sum, count), where sum adds up a value for each of count samples",
            )
    if len(sums) > MOST_METRICS:
        raise RekindleError(f"metrics returned {len(sums)} pairs", f"return at most {MOST_METRICS}")
    for name in sums:
        if not re.fullmatch(r"[\w .@/%+-]{1,60}", str(name)) or name in ("loss", "count"):
            raise RekindleError(
                f"a metric cannot be called {name!r}",
                'use letters, digits and "_ .@/%+-"; "loss" and "count" are what is reported anyway',
            )
    return {str(name): (total, int(count)) for name, (total, count) in sums.items()}


def check_names_of_loss(names: Collection[str]) -> None:
    for name in names:
        if name in _OF_LINES or name.startswith("test_"):
            raise RekindleError(
                f"the loss returned a metric {name!r}, which the lines of steps keep for another number", "call it otherwise"
            )


def check_names_differ(of_loss: Collection[str], of_metrics: Collection[str]) -> None:
    for name in of_metrics:
        if name in of_loss:
            raise RekindleError(f"metric {name} comes from loss and from metrics", "leave it out of one of them")
    check_count([*of_loss, *of_metrics])


def check_count(names: Collection[str]) -> None:
    if len(names) > MOST_METRICS:
        raise RekindleError(f"loss and metrics return {len(names)} metrics", f"return at most {MOST_METRICS} in all")


class Names:
    """The metrics of a trainer. `of_job`: those that test samples have, as far as the command found out. `best`: the job's
    best_metric.
    """

    def __init__(self, library: ctypes.CDLL, trainer: int, of_job: Sequence[str], best: str) -> None:
        self.library, self.trainer = library, trainer
        self.names = list(of_job)
        self.best = best.removeprefix("min:").removeprefix("max:")
        self.complete = False

    def store_of_training(self, to: Any, found: Mapping[str, tuple]) -> None:
        """To an array of _library.Sum. Every trainer begins with the same micro-batch, which completes the names."""
        sums = sums_of(found)
        if not self.complete:
            self.complete = True
            check_names_of_loss(sums)
            self._add([name for name in sums if name not in self.names])
            if self.best and self.best not in ("loss", *self.names):
                raise RekindleError(
                    f"best_metric is {self.best!r}, which neither loss nor metrics return", "name one that they return"
                )
        self.store(to, sums)

    def store(self, to: Any, sums: Mapping[str, tuple[float, int]]) -> None:
        for name, (total, count) in sums.items():
            if name not in self.names:
                raise RekindleError(
                    f"there is a metric {name!r} that the first micro-batch did not have",
                    "return the same names each time; where there is nothing to count, (0, 0)",
                )
            place = to[self.names.index(name)]
            place.sum, place.count = total, count

    def _add(self, names: list[str]) -> None:
        check_count([*self.names, *names])
        self.names += names
        for name in names:
            self.library.rk_add_metric(self.trainer, text_bytes(name))
