"""Loss and metrics of a model on test samples: in a trainer, and for `rekindle evaluate`."""

from __future__ import annotations

import contextlib
import math
import mmap
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, default_collate

from rekindle import _library
from rekindle._call import Call
from rekindle._data import TEST_EPOCH, EvaluationOrder, make_dataset, sample_of
from rekindle._device import moved
from rekindle._errors import CONFIG, RekindleError, SampleError, StorageAway, one_line
from rekindle._metrics import check_names_differ, check_names_of_loss, number, split, sums_of
from rekindle._random import seed_all


def precision(job: Mapping[str, Any], device: torch.device) -> contextlib.AbstractContextManager:
    """In which a model computes."""
    if job.get("precision") != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def check_loss(loss: Any) -> None:
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
        shape = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise RekindleError(
            f"the loss is {shape}", 'return a scalar tensor, the mean over the batch, or with metrics: loss, {"accuracy": (sum, count)}'
        )
    if not loss.requires_grad:
        raise RekindleError("the loss has no gradient", "compute it from the model's parameters, without no_grad()")


def without_compiler() -> contextlib.AbstractContextManager:
    """Compiling may take minutes. Only a torch from 2.6 on can do without."""
    can = hasattr(torch.compiler, "set_stance") and "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if can else contextlib.nullcontext()


def check_loss_of_tests(
    call: Call, model: nn.Module, train_data: Dataset, test_data: Dataset, key: int, ends_with_one: bool
) -> list[str] | None:
    """Names of the metrics that the loss returns of test samples. None if it fails for a reason that trainers find at once,
    or needs a GPU that is not here: then trainers find the names. Changes the model's buffers, and its device.
    `ends_with_one`: the last batch of an evaluation has one sample, which is tried, too.

    Errors: the loss works in train() mode alone, as one that takes a tuple which the model returns only then, or for
    train_data alone; or the first test sample cannot be read. A trainer would find this at its first evaluation, which
    may come after hours. Or what it returns as metrics cannot be taken.
    """
    names = _loss_of_tests_on(torch.device("cpu"), call, model, train_data, test_data, key, ends_with_one)
    if isinstance(names, list):
        return names
    # A label that is no class fails on the CPU with an IndexError; on a GPU, nothing could be computed after it.
    may_need_gpu = call.options.get("device") != "cpu" and not isinstance(names, (IndexError, StorageAway))
    if may_need_gpu and torch.cuda.is_available():
        names = _loss_of_tests_on(torch.device("cuda"), call, model, train_data, test_data, key, ends_with_one)
    return names if isinstance(names, list) else None


def fails_for_last(what: str, error: BaseException) -> RekindleError:
    return RekindleError(
        f"{what} for a batch of 1 sample, as the last one of test_data: {one_line(error)}",
        "the first evaluation would end the run: squeeze(1), which names a dimension, in place of squeeze()?",
    )


def _loss_of_tests_on(
    device: torch.device, call: Call, model: nn.Module, train_data: Dataset, test_data: Dataset, key: int, ends_with_one: bool
) -> list[str] | BaseException:
    """The names, or why the loss fails for samples of both kinds."""
    found: dict[str, Any] = {}

    collates = {"train_data": call.collate, "test_data": call.test_collate}

    # Of two samples: one is too few for batch norm.
    def attempt(data: Dataset, name: str, trains: bool, count: int = 2) -> BaseException | None:
        seed_all(key)
        try:
            samples = [sample_of(data, name, 0) for _ in range(count)]
            batch = (collates[name] or default_collate)(samples)
            if device.type != "cpu":
                batch = moved(batch, device)
            model.to(device).train(trains)
            with torch.set_grad_enabled(trains), without_compiler(), precision(call.options, device):
                loss, metrics = split(call.loss(model, batch))
                number(loss)
            found.update(metrics)
        except BaseException as error:
            return error
        return None

    error = attempt(test_data, "test_data", trains=False)
    if error is None:
        names = list(sums_of(found))
        check_names_of_loss(names)
        error = attempt(test_data, "test_data", trains=False, count=1) if ends_with_one else None
        if error is not None and not isinstance(error, (StorageAway, torch.cuda.OutOfMemoryError)):
            raise fails_for_last("the loss fails", error) from error
        return names
    if isinstance(error, StorageAway):  # it may be back at the first evaluation
        return error
    if attempt(test_data, "test_data", trains=True) is None:
        raise RekindleError(
            f"the loss fails in eval() mode, in which it is computed for test_data: {one_line(error)}",
            "ask model.training in the loss, or leave test_data out",
        )
    if attempt(train_data, "train_data", trains=True) is None:
        what = one_line(error)  # of a sample with its number
        raise RekindleError(
            what if isinstance(error, SampleError) else f"the loss fails for test_data: {what}",
            "the first evaluation would end the run: mend test_data, or leave it out",
        )
    return error


def measure(
    call: Call, model: nn.Module, batch: Any, job: dict[str, Any], device: torch.device, key: int
) -> tuple[float, dict[str, tuple[float, int]]]:
    """The mean loss of a batch, and its metrics. The model is in eval(), and both are on the device. `key`: of the random
    numbers that they draw.
    """
    seed_all(key)
    with torch.no_grad(), precision(job, device):
        loss, found = split(call.loss(model, batch))
        sums = sums_of(found)
        if call.metrics is not None:
            more = sums_of(call.metrics(model, batch))
            check_names_differ(sums, more)
            sums.update(more)
    return number(loss), sums


def _sum(total: float, count: int) -> dict[str, Any]:
    """JSON has no number that is not finite."""
    return {"sum": total if math.isfinite(total) else None, "count": count}


def evaluate(
    call: Call, job: dict[str, Any], tensors: mmap.mmap, on_progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """As the answer of the C++ trainer program (app/evaluate.cpp). `job`: with "evaluate_at_a_time"."""
    from rekindle._loader import Loader
    from rekindle._model import fill, make_model
    from rekindle._results import tensors_in
    from rekindle._settings import set_up

    if call.test_data is None:
        raise RekindleError("the script has no test_data", "give run() the test_data to evaluate", CONFIG)
    set_up(job)
    library = _library.load()
    key = library.rk_initial_key(job["seed"])
    data = make_dataset(call.test_data, "test_data", key)
    size = job["evaluate_at_a_time"]

    def sample_key(epoch: int, index: int) -> int:
        return library.rk_sample_key(job["seed"], epoch, index)

    loader = Loader(data, EvaluationOrder(len(data), size, size), sample_key, call.test_collate, job["loader_threads"])
    seed_all(key)
    model = make_model(call.model)
    fill(model, tensors_in(tensors))
    device = torch.device("cuda" if job["device"] == "cuda" and torch.cuda.is_available() else "cpu")
    model.to(device).eval()
    loss, sums = 0.0, {name: [0.0, 0] for name in job["script_metrics"]}
    for first in range(0, len(data), size):
        count = min(size, len(data) - first)
        batch = moved(loader.next_at((first, count)), device)
        mean, found = measure(call, model, batch, job, device, sample_key(TEST_EPOCH, first))
        loss += mean * count
        for name, (total, of) in found.items():
            both = sums.setdefault(name, [0.0, 0])
            both[0] += total
            both[1] += of
        on_progress(first + count, len(data))
    return {
        "samples": "samples",
        "test_count": len(data),
        "loss": _sum(loss, len(data)),
        "metrics": [{"name": name, **_sum(total, of)} for name, (total, of) in sums.items()],
        "classes": [],
    }
