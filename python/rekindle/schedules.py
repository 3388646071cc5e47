"""Schedules of the learning rate: functions of the step, as those of torch.optim.lr_scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rekindle._errors import USAGE, RekindleError
from rekindle._record import Record

_FUNCTION = "or give schedule=lambda step, steps: ..., the factor of the rate"
_TO_ZERO = f"it goes to 0 over the run's steps; {_FUNCTION}"


def _whole(name: str, value: float) -> str:
    """As text. Errors: the value is no whole number."""
    if not isinstance(value, str) and float(value).is_integer():
        return str(int(value))
    raise RekindleError(f"{name} is {value!r}", "give a whole number", USAGE)


@dataclass(frozen=True)
class Schedule(Record):
    """A schedule and its options. Over the first `warmup_steps` steps the rate grows linearly to the optimizer's."""

    name: ClassVar[str]
    warmup_steps: int = field(default=0, kw_only=True)  # the other fields may be given by position, as in torch
    _instead = {
        "optimizer": "leave the optimizer out: a schedule is an argument of run()",
        "last_epoch": "leave it out: a run that goes on knows its step",
        "verbose": "leave it out: metrics.jsonl has the rates",
        "step_size": "use epochs, the number of epochs between two changes",
        "T_max": _TO_ZERO, "eta_min": _TO_ZERO, "start_factor": _TO_ZERO, "end_factor": _TO_ZERO,
        "total_iters": "leave it out: it is over the run's steps",
    }  # fmt: skip

    @staticmethod
    def _name_of_torch(first: Any) -> str:
        return "optimizer" if hasattr(first, "param_groups") or isinstance(first, Record) else ""

    def options(self) -> dict[str, str]:
        """The options of the command line that choose this schedule, as text."""
        options = {"schedule": self.name, "warmup-steps": _whole("warmup_steps", self.warmup_steps)}
        if hasattr(self, "gamma"):
            options["lr-gamma"] = repr(float(self.gamma))
        if hasattr(self, "epochs"):
            options["lr-step"] = _whole("epochs", self.epochs)
        if hasattr(self, "milestones"):
            options["milestones"] = ",".join(_whole("milestones", epoch) for epoch in self.milestones)
        return options


@dataclass(frozen=True)
class Step(Schedule):
    """The rate is multiplied by `gamma` after every `epochs` epochs.

    epochs: the whole number of epochs between two changes.
    gamma: the factor of each change.
    warmup_steps: updates at the start of the run over which the rate grows linearly to the optimizer's. 0: none.
    """

    name: ClassVar[str] = "step"
    epochs: int = 30
    gamma: float = 0.1


@dataclass(frozen=True)
class MultiStep(Schedule):
    """The rate is multiplied by `gamma` at each of the milestones.

    milestones: the numbers of epochs after which the rate changes, whole and ascending, at least one.
    gamma: the factor of each change.
    warmup_steps: updates at the start of the run over which the rate grows linearly to the optimizer's. 0: none.
    """

    name: ClassVar[str] = "multi-step"
    milestones: Sequence[int] = ()
    gamma: float = 0.1


@dataclass(frozen=True)
class Exponential(Schedule):
    """The rate is multiplied by `gamma` after each epoch.

    gamma: the factor of each change.
    warmup_steps: updates at the start of the run over which the rate grows linearly to the optimizer's. 0: none.
    """

    name: ClassVar[str] = "exponential"
    gamma: float = 0.1


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from the optimizer's rate to 0 over the run's steps after the warm-up.

    warmup_steps: updates at the start of the run over which the rate grows linearly to the optimizer's. 0: none.
    """

    name: ClassVar[str] = "cosine"


@dataclass(frozen=True)
class Linear(Schedule):
    """A line from the optimizer's rate to 0 over the run's steps after the warm-up.

    warmup_steps: updates at the start of the run over which the rate grows linearly to the optimizer's. 0: none.
    """

    name: ClassVar[str] = "linear"


@dataclass(frozen=True)
class Constant(Schedule):
    """The optimizer's rate, always after the warm-up.

    warmup_steps: updates at the start of the run over which the rate grows linearly to the optimizer's. 0: none.
    """

    name: ClassVar[str] = "constant"
