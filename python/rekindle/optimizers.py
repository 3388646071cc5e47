"""The optimizers of the C++ program, with the formulas, options and defaults of torch.optim.

They update the state in one pass while gradients arrive from the other trainers. Each is a plain record of options.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from rekindle._record import Record

_OURS = "leave it out: rekindle has an update of its own"
_OTHER = "leave it out, or give optimizer=lambda parameters: torch.optim.{name}(parameters, ...)"


class Optimizer(Record):
    """An optimizer and its options."""

    name: ClassVar[str]
    _instead = {
        "params": "leave the parameters out: rekindle.{name}(lr=...)",
        "fused": _OURS, "foreach": _OURS, "capturable": _OURS, "differentiable": _OURS,
        "amsgrad": _OTHER, "maximize": _OTHER, "centered": _OTHER, "decoupled_weight_decay": _OTHER,
    }  # fmt: skip

    @staticmethod
    def _name_of_torch(first: Any) -> str:
        return "params" if isinstance(first, (Iterator, list, tuple)) or hasattr(first, "parameters") else ""

    def options(self) -> dict[str, str]:
        """The options of the command line that choose this optimizer, as text."""
        options = {"optimizer": self.name}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == "betas":
                options["beta1"], options["beta2"] = (repr(float(beta)) for beta in value)
            elif isinstance(value, bool):
                if value:
                    options[field.name] = "true"
            else:
                options[field.name.replace("_", "-")] = repr(float(value))
        return options


@dataclass(frozen=True)
class SGD(Optimizer):
    """torch.optim.SGD.

    lr: the learning rate, by which the direction of a step is multiplied.
    momentum: the part of the direction of the step before that each step keeps, from 0 to below 1. 0: none.
    dampening: the part of a new gradient that is left out of the direction, from 0 to below 1. 0: none. Without momentum
        it has no effect.
    weight_decay: a decay of the parameters: their product with this number is added to their gradients. 0: none.
    nesterov: Nesterov's momentum. It needs a momentum above 0, and a dampening of 0.
    """

    name: ClassVar[str] = "sgd"
    lr: float = 0.001
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True)
class Adam(Optimizer):
    """torch.optim.Adam, without amsgrad.

    lr: the learning rate: about how far a step moves a parameter.
    betas: the parts that each step keeps of the mean gradient and of the mean squared gradient, from 0 to below 1.
    eps: is added to the root of the mean squared gradient, by which a step divides, and is below 1.
    weight_decay: a decay of the parameters: their product with this number is added to their gradients. 0: none.
    """

    name: ClassVar[str] = "adam"
    lr: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0


@dataclass(frozen=True)
class AdamW(Adam):
    """torch.optim.AdamW, without amsgrad.

    lr, betas, eps: as of Adam.
    weight_decay: a decay of the parameters beside the gradient: each step multiplies them by 1 - lr * weight_decay. 0: none.
    """

    name: ClassVar[str] = "adamw"
    weight_decay: float = 0.01


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """torch.optim.Adadelta.

    lr: the learning rate. At 1 a step has the length that the formula gives it.
    rho: the part that each step keeps of the means of squared gradients and of squared steps, from 0 to below 1.
    eps: is added to both means before their roots are divided, and is below 1.
    weight_decay: a decay of the parameters: their product with this number is added to their gradients. 0: none.
    """

    name: ClassVar[str] = "adadelta"
    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """torch.optim.RMSprop, not centered.

    lr: the learning rate, by which the direction of a step is multiplied.
    alpha: the part of the mean squared gradient that each step keeps, from 0 to below 1.
    eps: is added to the root of the mean squared gradient, by which a step divides, and is below 1.
    weight_decay: a decay of the parameters: their product with this number is added to their gradients. 0: none.
    momentum: the part of the direction of the step before that each step keeps, from 0 to below 1. 0: none.
    """

    name: ClassVar[str] = "rmsprop"
    lr: float = 0.01
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
