"""The functions of a task for the library: an exception of the script becomes a result."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rekindle import _library
from rekindle._errors import Aborted, RekindleError, one_line
from rekindle._process import end_if_forked

if TYPE_CHECKING:
    from rekindle._task import Task


@contextlib.contextmanager
def _reported(task: Task, what: str, result: list[int]) -> Iterator[None]:
    """Turns an exception of the script into a result, the traceback in the log."""
    try:
        yield
        end_if_forked(task.process)
    except Aborted:
        end_if_forked(task.process)
        result[0] = _library.ABORTED
    except BaseException as error:
        end_if_forked(task.process)
        result[0] = _library.FAILED
        for line in traceback.format_exc().splitlines():
            task.library.rk_log(1, line.encode())
        last, hint = one_line(error), "the traceback is in the trainer's log"
        if isinstance(error, RekindleError):
            last, hint = error.what, error.hint
        task.library.rk_fail(task.trainer, f"{what}: {last}".encode(), hint.encode())


def calls_of(task: Task) -> _library.Calls:
    """These functions for the library. The result has to live as long as they are called."""

    def initialize() -> int:
        result = [_library.OK]
        with _reported(task, "initial values", result):
            task.initialize()
        return result[0]

    def expect_steps(step: int, every: Any, every_count: int, first: Any, first_count: int) -> int:
        result = [_library.OK]
        with _reported(task, "the loader", result):
            task.expect_steps(step, every[:every_count], first[:first_count])
        return result[0]

    def train(pointer: Any) -> int:
        result, batch = [_library.OK], pointer.contents
        with _reported(task, f"step {batch.step}, micro-batch {batch.micro_batch}", result):
            task.train(batch)
        return result[0]

    def evaluate(pointer: Any) -> int:
        result, evaluation = [_library.OK], pointer.contents
        with _reported(task, f"test samples from {evaluation.first} on", result):
            task.evaluate(evaluation)
        return result[0]

    def rate_factor(step: int, pointer: Any) -> int:
        result = [_library.OK]
        with _reported(task, f"step {step}, the schedule", result):
            pointer[0] = 1.0 if task.call.factor is None else float(task.call.factor(step))
        return result[0]

    def optimize(pointer: Any) -> int:
        result, step = [_library.OK], pointer.contents
        with _reported(task, f"step {step.step}, the optimizer", result):
            task.optimize(step)
        return result[0]

    def save_optimizer() -> int:
        result = [_library.OK]
        with _reported(task, "the optimizer's state", result):
            task.own.save()
        return result[0]

    def load_optimizer() -> int:
        result = [_library.OK]
        with _reported(task, "the optimizer's state", result):
            task.own.load()
        return result[0]

    return _library.Calls(
        _library.Initialize(initialize),
        _library.ExpectSteps(expect_steps),
        _library.EndOfSteps(lambda: _library.OK),
        _library.Train(train),
        _library.Evaluate(evaluate),
        _library.RateFactor(rate_factor),
        _library.Optimize(optimize),
        _library.SaveOptimizer(save_optimizer),
        _library.LoadOptimizer(load_optimizer),
    )
