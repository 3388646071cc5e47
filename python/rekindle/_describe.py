"""What the front end learns of a script (app/script.hpp), and what it tries before the run begins."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import default_collate

from rekindle import _library
from rekindle._call import Call
from rekindle._data import make_dataset
from rekindle._device import moved
from rekindle._evaluation import check_loss_of_tests, fails_for_last, precision, without_compiler
from rekindle._factor import check_last_factor
from rekindle._metrics import check_names_differ, sums_of
from rekindle._model import Tensors, make_model
from rekindle._optimizer import Template
from rekindle._random import seed_all


def _metric_names(call: Call, model: nn.Module, test_data: Any, device: torch.device, ends_with_one: bool) -> list[str]:
    if call.metrics is None:
        return []
    model.eval()

    def names_of(samples: int) -> list[str]:
        with torch.no_grad(), without_compiler(), precision(call.options, device):
            batch = (call.test_collate or default_collate)([test_data[0] for _ in range(samples)])
            return list(sums_of(call.metrics(model, moved(batch, device))))

    try:
        names = names_of(2)  # of one, numbers of a `collate` that pairs samples may look right
    except Exception:
        with contextlib.suppress(Exception):
            return names_of(1)  # where batches have one sample
        raise
    if ends_with_one:
        try:
            names_of(1)
        except Exception as error:
            raise fails_for_last("metrics fail", error) from error
    return names


def _optimizer_and_metrics(
    call: Call, model: nn.Module, test_data: Any, loss_works: bool, ends_with_one: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Tensors of the optimizer, and names. Some operators and optimizers work on a GPU alone. `loss_works`: here."""

    def computed(device: torch.device) -> tuple[list[dict[str, Any]], list[str]]:
        model.to(device)
        made = [] if call.make_optimizer is None else Template(call.make_optimizer, model).specs()
        try:
            return made, _metric_names(call, model, test_data, device, ends_with_one)
        except Exception:
            if not loss_works and not torch.cuda.is_available():  # behind it comes the traceback
                advice = "return them from the loss, or give this command on a machine with a GPU"
                print(f"rekindle: metrics are computed once here: if the model needs a GPU, {advice}", file=sys.stderr)
            raise

    try:
        return computed(torch.device("cpu"))
    except Exception:  # also a RekindleError, as of an optimizer whose step() failed
        if torch.cuda.is_available():
            with contextlib.suppress(Exception):  # then the first error is the script's
                return computed(torch.device("cuda"))
        raise


def _look_for_gpu() -> dict[str, Any]:
    """Whether torch and the library can use a GPU. A torch may be content with a driver that the library is not."""
    if not torch.cuda.is_available():
        return {"has_gpu": False, "no_gpu": ""}
    library = _library.load()
    usable = library.rk_look_for_gpu() == _library.OK
    return {"has_gpu": usable, "no_gpu": "" if usable else library.rk_error().decode()}


def _steps_of(options: Mapping[str, str], samples: int) -> int:
    """The run's length. 0: it is no number, which is told later."""
    try:
        if "steps" in options:
            return int(options["steps"])
        return -(-int(options["epochs"]) * samples // int(options["batch-size"]))
    except (KeyError, ValueError, ZeroDivisionError):
        return 0


def _default_micro_batches(batch: int) -> int:
    """As protocol::default_micro_batches() of the command line."""
    parts = 32
    while parts > 1 and (batch % parts != 0 or batch // parts < 8):
        parts //= 2
    return parts


def _ends_with_one(options: Mapping[str, str], samples: int) -> bool:
    """Whether the last batch of an evaluation has one sample (EvaluationOrder). Two are tried anyway, and more
    would not fit what a model keeps from its first batch: in a trainer, that is the largest.
    """
    try:
        batch = int(options["batch-size"])
        return samples % (batch // int(options.get("micro-batches", _default_micro_batches(batch)))) == 1
    except (KeyError, ValueError, ZeroDivisionError):  # that is told later
        return False


def describe(call: Call, key: int, given: Mapping[str, str]) -> dict[str, Any]:
    """See app/script.hpp. `key`: of the random numbers that data sets and model draw. `given`: options of the command line
    that are of use here, which take the place of those of the call.
    """
    train_data = make_dataset(call.train_data, "train_data", key)
    test_data = None if call.test_data is None else make_dataset(call.test_data, "test_data", key)
    seed_all(key)
    model = make_model(call.model)
    found = Tensors(model)
    found.check_on_cpu()
    tensors = found.specs()
    tied = [name for pair in found.tied.items() for name in pair]
    length = {"steps", "epochs"}
    options = {name: value for name, value in call.options.items() if not length & given.keys() or name not in length} | given
    ends_with_one = test_data is not None and _ends_with_one(options, len(test_data))
    of_loss = [] if test_data is None else check_loss_of_tests(call, model, train_data, test_data, key, ends_with_one)
    of_optimizer, of_metrics = _optimizer_and_metrics(call, model, test_data, of_loss is not None, ends_with_one)
    check_names_differ(of_loss or [], of_metrics)
    if call.factor is not None and options["schedule"] == "constant" and (steps := _steps_of(options, len(train_data))) > 0:
        check_last_factor(call.factor, steps)
    return {
        "options": call.options,
        "tensors": tensors + of_optimizer,
        "tied": tied,
        "train_samples": len(train_data),
        "test_samples": 0 if test_data is None else len(test_data),
        "metrics": [*(of_loss or []), *of_metrics],
        "metrics_known": of_loss is not None,
        "build": _library.load().rk_build().decode(),
        **_look_for_gpu(),
    }
