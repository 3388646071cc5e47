"""A schedule of the script: a function that gives the factor of the learning rates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rekindle._errors import RekindleError, one_line, takes_two


def of_step(schedule: Callable[..., float], steps: int) -> Callable[[int], float]:
    """A schedule of the script as a function of the step. `steps`: of the run, as it was first started: a run that is made
    longer keeps the rates of the steps that it has made.
    """
    return (lambda step: schedule(step, steps)) if takes_two(schedule) else schedule


def check_last_factor(schedule: Callable[..., float], steps: int) -> None:
    """Errors: the schedule fails at the end of a run of so many steps, as a list of rates that is one too short. Not
    OverflowError and the like: a run without end is stopped before.
    """
    try:
        float(of_step(schedule, steps)(steps - 1))
    except (LookupError, TypeError) as error:
        raise RekindleError(
            f"the schedule gives no factor for step {steps - 1}, the last one of {steps}: {one_line(error)}",
            "E epochs are ceil(E * samples / batch_size) steps, and schedule(step, steps) gets their number",
        ) from error
    except Exception:
        return


_ASKED_S = 0.2  # in a process's first step


class Factor:
    """The script's schedule: a function of the step that gives the factor of the rates. A function that keeps a state
    would give other factors after a resume, and in a trainer that joins. It shows when it is asked for the same step again:
    for a while in the process's first step, because the factor of some stays the same for many calls, and once whenever the
    factor is another one. Earlier steps are not asked for: a function may keep what it has computed for them.
    """

    def __init__(self, function: Callable[[int], float], steps: int) -> None:
        self.function, self.steps = function, steps
        self.before: float | None = None

    def at(self, step: int) -> float:
        factor = float(self.function(step))
        if self.before is None:
            end = time.monotonic() + _ASKED_S
            for _ in range(self.steps):
                self._ask_again(step, factor)
                if time.monotonic() > end:
                    break
        elif factor != self.before:
            self._ask_again(step, factor)
        self.before = factor
        return factor

    def _ask_again(self, step: int, factor: float) -> None:
        again = float(self.function(step))
        if again != factor and not math.isnan(factor):  # that is an error of its own
            raise RekindleError(
                f"the schedule gives another factor for the same step, {factor} and then {again}",
                "it must depend on the step alone: no scheduler of torch, no counter",
            )
