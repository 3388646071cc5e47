"""The functions of a task for the library: an exception of the script becomes a result."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rekindle import _library
from rekindle._errors import IN_THE_LOG, Aborted, RekindleError, StorageAway, hint_for, one_line, text_bytes
from rekindle._factor import Factor, of_step
from rekindle._process import end_if_forked

if TYPE_CHECKING:
    from rekindle._task import Task


def _result(task: Task, what: str, act: Callable[[], None]) -> int:
    """Calls `act`, and turns an exception of the script into a result, the traceback in the log."""
    try:
        act()
        end_if_forked(task.process)
        return _library.OK
    except Aborted:
        end_if_forked(task.process)
        return _library.ABORTED
    except StorageAway as error:
        end_if_forked(task.process)
        task.library.rk_fail(task.trainer, text_bytes(f"{what}: {one_line(error)}"), b"look at the storage of the data")
        return _library.NOT_NOW
    except BaseException as error:
        end_if_forked(task.process)
        last, hint = type(error).__name__, IN_THE_LOG
        try:
            for line in traceback.format_exc().splitlines():
                task.library.rk_log(1, text_bytes(line))
            last = one_line(error)
            if isinstance(error, RekindleError):
                last, hint = error.what, error.hint
            else:
                hint = hint_for(error)
        except Exception:  # of the exception's own __str__
            task.library.rk_log(1, b"the exception cannot be printed")
        task.library.rk_fail(task.trainer, text_bytes(f"{what}: {last}"), text_bytes(hint))
        return _library.FAILED


def calls_of(task: Task) -> _library.Calls:
    """These functions for the library. The result has to live as long as they are called."""
    # The command line may have another schedule.
    has_factor = task.call.factor is not None and task.job["schedule"] == "constant"
    job = task.job
    factor = Factor(of_step(task.call.factor, job["schedule_steps"]), job["steps"]) if has_factor else None

    def initialize() -> int:
        return _result(task, "initial values", task.initialize)

    def expect_steps(step: int, every: Any, every_count: int, first: Any, first_count: int) -> int:
        return _result(
            task, "the loader", lambda: task.expect_steps(step, every[:every_count], first[:first_count])
        )

    def end_of_steps() -> int:
        return _result(task, "the loader", task.loader.end)

    def train(pointer: Any) -> int:
        batch = pointer.contents
        return _result(task, f"step {batch.step}, micro-batch {batch.micro_batch}", lambda: task.train(batch))

    def evaluate(pointer: Any) -> int:
        evaluation = pointer.contents
        return _result(task, f"test samples from {evaluation.first} on", lambda: task.evaluate(evaluation))

    def rate_factor(step: int, pointer: Any) -> int:
        def ask() -> None:
            pointer[0] = 1.0 if factor is None else factor.at(step)

        return _result(task, f"step {step}, the schedule", ask)

    def optimize(pointer: Any) -> int:
        step = pointer.contents
        return _result(task, f"step {step.step}, the optimizer", lambda: task.optimize(step))

    def save_optimizer() -> int:
        return _result(task, "the optimizer's state", lambda: task.own.save())

    def load_optimizer() -> int:
        return _result(task, "the optimizer's state", lambda: task.own.load())

    def free_memory() -> int:
        return _result(task, "the memory of the device", task.device.free_memory)

    return _library.Calls(
        _library.Initialize(initialize),
        _library.ExpectSteps(expect_steps),
        _library.EndOfSteps(end_of_steps),
        _library.Train(train),
        _library.Evaluate(evaluate),
        _library.RateFactor(rate_factor),
        _library.Optimize(optimize),
        _library.SaveOptimizer(save_optimizer),
        _library.LoadOptimizer(load_optimizer),
        _library.FreeMemory(free_memory),
    )
