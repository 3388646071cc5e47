"""A trainer's computation: micro-batches of the model, its loss and its data, for the step loop in C++."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rekindle import _library
from rekindle._call import Call
from rekindle._calls import calls_of
from rekindle._checks import Checks
from rekindle._data import TEST_EPOCH, EvaluationOrder, StepOrder, make_dataset
from rekindle._device import Device, copy_all, host_memory
from rekindle._errors import Aborted, RekindleError
from rekindle._evaluation import check_loss, measure, precision
from rekindle._gradients import Gradients
from rekindle._linear import is_compiling
from rekindle._loader import Loader
from rekindle._metrics import Names, split
from rekindle._model import Tensors, make_dense, make_model
from rekindle._names import buffers_of
from rekindle._optimizer import OwnOptimizer, Template
from rekindle._process import descriptors, ignore_group_signals, private_descriptors, sockets
from rekindle._random import seed_all
from rekindle._settings import compile_each_shape, cpu_name, fingerprint, set_up


class Task:
    """The functions of rk_calls."""

    def __init__(self, library: ctypes.CDLL, trainer: int, job: dict[str, Any], call: Call) -> None:
        self.library, self.trainer, self.job, self.call = library, trainer, job, call
        self.seed = job["seed"]
        self.process = os.getpid()
        initial_key = library.rk_initial_key(self.seed)
        self.train_data = make_dataset(call.train_data, "train_data", initial_key)
        evaluates = call.test_data is not None and job["test_samples"] > 0  # an audit does not
        self.test_data = make_dataset(call.test_data, "test_data", initial_key) if evaluates else None
        for name, data, count in (
            ("train_data", self.train_data, job["train_samples"]),
            ("test_data", self.test_data, job["test_samples"]),
        ):
            if (found := 0 if data is None else len(data)) != count:
                raise RekindleError(
                    f"{name} has {found} samples here, and had {count} when this attempt began",
                    "its length may not depend on time, on chance or on the machine",
                )
        before = descriptors()
        self.device = Device(library, trainer, job["device"])
        private_descriptors.update(sockets(descriptors() - before))  # the claim of the GPU ends with this process
        self.micro_batch: Any = None  # that of the call being made
        self.was_aborted = False  # as the script was told
        self.metrics = Names(library, trainer, job["script_metrics"], job["best_metric"])
        self.told_full = False  # that an evaluation found the memory full
        self._make_loaders()
        seed_all(initial_key)
        self.model = make_model(call.model)
        set_up(job)  # again: the script may have chosen algorithms
        Tensors(self.model).check_on_cpu()
        self.device.move_model(self.model)
        self.tensors = Tensors(self.model)
        self.own: OwnOptimizer | None = None  # the script's optimizer
        self._bind()
        self.restart = self._keep_initial()
        # A hook of each module would end MultiheadAttention's fast path, which checks for those.
        nn.modules.module.register_module_forward_pre_hook(self._look_for_abort)
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")

    # -- the state --

    def _bind(self) -> None:
        """Moves the parameters into the library's memory, and copies the buffers there."""
        tensors = {**self.tensors.parameters, **self.tensors.buffers}
        makes_optimizer = self.job["optimizer"] == "script"  # the command line may have chosen another one
        template = Template(self.call.make_optimizer, self.model) if makes_optimizer else None
        if self.device.is_gpu:
            torch.cuda.empty_cache()  # of the template: the library takes memory beside torch's
        described = self.tensors.specs() + (template.specs() if template is not None else [])
        specs = (_library.Tensor * len(described))()
        shapes = []
        for spec, tensor in zip(specs, described):
            shapes.append((ctypes.c_int64 * max(1, len(tensor["shape"])))(*tensor["shape"]))
            spec.name, spec.dtype = tensor["name"].encode(), tensor["dtype"].encode()
            spec.shape, spec.dimensions = shapes[-1], len(tensor["shape"])
            spec.role = _library.ROLES[tensor["role"]]
        processor = torch.cuda.get_device_name() if self.device.is_gpu else cpu_name()
        machine = f"Python {platform.python_version()}, torch {torch.__version__}, {processor}"
        bits = json.dumps(fingerprint(self.job, self.device.describe())).encode()
        if self.library.rk_set_state(self.trainer, specs, len(specs), bits, machine.encode()) != _library.OK:
            raise RekindleError(self.library.rk_error().decode(), code=self.library.rk_exit_code())
        make_dense(self.model)  # now that there is memory for all
        self.compiles_each_shape = compile_each_shape()
        saved = {id(self.tensors.buffer(name)) for name in self.tensors.buffers}
        # Of modules that share one, each.
        self.first_buffers = [(each, each.value()) for each in buffers_of(self.model) if id(each.value()) in saved]
        self.values, self.averages = [], []  # type: list[torch.Tensor], list[torch.Tensor]
        for i, tensor in enumerate(tensors.values()):
            self.values.append(self.device.memory(self.library.rk_value(self.trainer, i), tensor))
            average = self.library.rk_average(self.trainer, i)
            self.averages.append(self.device.memory(average, tensor) if average else self.values[-1])
        with torch.no_grad():
            for value, tensor in zip(self.values, tensors.values()):
                value.copy_(tensor)
        self._use(self.values)
        self.checks = Checks(self.tensors, self.values)
        if template is not None:
            kept = [
                host_memory(self.library.rk_value(self.trainer, len(tensors) + i), tensor)
                for i, (_, tensor) in enumerate(template.tensors)
            ]
            self.own = OwnOptimizer(self.call.make_optimizer, self.model, template, kept)
        offsets = [self.library.rk_place(self.trainer, i) for i in range(len(self.tensors.parameters))]
        self.gradients = Gradients(self.device, list(self.tensors.parameters.values()), offsets, self._look_for_abort)

    def _use(self, values: list[torch.Tensor]) -> None:
        for value, parameter in zip(values, self.tensors.parameters.values()):
            parameter.data = value

    def _load_buffers(self, values: list[torch.Tensor]) -> None:
        # A forward pass may have replaced a buffer by a tensor that is also something else: copy into no such one.
        for buffer, first in self.first_buffers:
            if buffer.value() is not first:
                buffer.module._buffers[buffer.attribute] = first
        if self.tensors.buffers:
            buffers = [self.tensors.buffer(name) for name in self.tensors.buffers]
            copy_all(buffers, values[len(self.tensors.parameters) :])

    def _keep_initial(self) -> Callable[[], list[torch.Tensor]]:
        """A function that returns the initial values."""
        if isinstance(self.call.model, nn.Module):
            kept = [value.to("cpu", copy=True) for value in self.values]
            return lambda: kept

        def make_again() -> list[torch.Tensor]:
            seed_all(self.library.rk_initial_key(self.seed))
            made = make_model(self.call.model)
            tensors = Tensors(made)
            initial = [*tensors.parameters.values(), *tensors.buffers.values()]
            own = {id(tensor) for tensor in (*self.tensors.parameters.values(), *self.tensors.buffers.values())}
            if any(id(tensor) in own for tensor in initial):
                raise RekindleError(
                    "model returned the same module again, or a part of it", "make a new one each time, or give the module itself"
                )
            return initial

        return make_again

    def initialize(self) -> None:
        with torch.no_grad():
            for value, initial in zip(self.values, self.restart()):
                value.copy_(initial)

    # -- the samples --

    def _make_loaders(self) -> None:
        job = self.job
        self.steps = StepOrder(self._samples)
        micro_batch = job["batch_size"] // job["micro_batches"]
        self.tests = EvaluationOrder(job["test_samples"], job["batch_size"], micro_batch)
        of_both = {"key": self._sample_key, "processes": job["loader_threads"]}
        self.test_loader = None
        if self.test_data is not None:
            self.test_loader = Loader(self.test_data, self.tests, collate=self.call.test_collate, **of_both)
        self.loader = Loader(
            self.train_data, self.steps, collate=self.call.collate, **of_both, pins=self.device.is_gpu,
            look=self._look_for_abort,
        )  # fmt: skip

    def _samples(self, step: int, micro_batch: int) -> list[tuple[int, int]]:
        count = self.library.rk_samples(self.trainer, step, micro_batch, None, None)
        epochs, indices = (ctypes.c_uint64 * count)(), (ctypes.c_uint64 * count)()
        if self.library.rk_samples(self.trainer, step, micro_batch, epochs, indices) != count:
            raise RekindleError(self.library.rk_error().decode(), code=self.library.rk_exit_code())
        return list(zip(epochs, indices))

    def _sample_key(self, epoch: int, index: int) -> int:
        return self.library.rk_sample_key(self.seed, epoch, index)

    def expect_steps(self, step: int, every: list[int], first: list[int]) -> None:
        self.steps.expect(step, every, first)
        self.tests.micro_batches = every
        self.loader.begin()

    # -- a micro-batch --

    def _look_for_abort(self, *_: Any) -> None:
        if is_compiling():  # the compiler traces this call: it must not become part of the model
            return
        if self.micro_batch is not None and self.micro_batch.aborted[0]:
            self.was_aborted = True  # a bare `except:` of the script may catch what is raised
            raise Aborted

    def train(self, micro_batch: Any) -> None:
        self.micro_batch, self.was_aborted = micro_batch, False
        try:
            began = time.perf_counter()
            batch = self.device.batch(self.loader.next((micro_batch.step, micro_batch.micro_batch)))
            micro_batch.waited_ms = 1e3 * (time.perf_counter() - began)
            self._compute(micro_batch, batch)
        finally:
            self.micro_batch = None
            if self.was_aborted:  # whatever the script made of it, its gradient is not to be kept
                raise Aborted

    def _compute(self, micro_batch: Any, batch: Any) -> None:
        """Forward and backward pass."""
        self.gradients.begin(micro_batch)
        versions = [parameter._version for parameter in self.tensors.parameters.values()]
        sums = self.checks.sums(micro_batch.step)
        self.compiles_each_shape = self.compiles_each_shape or compile_each_shape()
        self.model.train()
        self._load_buffers(self.values)
        seed_all(self.library.rk_micro_batch_key(self.seed, micro_batch.step, micro_batch.micro_batch))
        with self.gradients.in_places():
            with precision(self.job, self.device.torch):
                loss, metrics = split(self.call.loss(self.model, batch))
            check_loss(loss)
            self.checks.first_losses(loss)
            self.gradients.backward(loss)
        micro_batch.loss = loss.item()
        self.metrics.store_of_training(micro_batch.metrics, metrics)
        self.device.check_memory()
        self._store_buffers(micro_batch)
        self.checks.unchanged()
        self.checks.values_kept(versions, "computed a gradient")
        self.checks.sums_kept(sums)

    def optimize(self, step: Any) -> None:
        places = self.gradients.places_in(step.gradient)
        gradients = [place if step.received[i] else None for i, place in enumerate(places)]
        # An optimizer may draw: -1 is no micro-batch's number.
        seed_all(self.library.rk_micro_batch_key(self.seed, step.step, -1))
        self.own.step(step.factor, gradients)
        for value, parameter in zip(self.values, self.tensors.parameters.values()):
            if parameter.data_ptr() == value.data_ptr():
                continue
            if parameter.shape == value.shape and parameter.dtype == value.dtype:
                value.copy_(parameter.data)  # p.data = p.data - ...
                parameter.data = value
        self.checks.unchanged()

    def _store_buffers(self, micro_batch: Any) -> None:
        self.new_buffers = []  # alive until the next call
        # Not with the first tensor itself, which may have been changed in place.
        kept = self.values[len(self.tensors.parameters) :]
        for i, (name, old) in enumerate(zip(self.tensors.buffers, kept)):
            new = self.tensors.buffer(name).detach()
            if new.dtype != old.dtype or new.shape != old.shape or new.device != old.device:
                raise RekindleError(
                    f"buffer {name} became {new.dtype} {list(new.shape)} on {new.device}", "keep its type, shape and device"
                )
            self.new_buffers.append(new.contiguous())
            micro_batch.buffers[i] = self.new_buffers[-1].data_ptr()

    # -- an evaluation --

    def evaluate(self, evaluation: Any) -> None:
        self.device.check_memory()  # of what came before
        batch = self.device.batch(self.test_loader.next_at((evaluation.first, evaluation.count)))
        key = self._sample_key(TEST_EPOCH, evaluation.first)
        self.model.eval()
        values = self.averages if evaluation.averaged else self.values
        self._load_buffers(values)
        self._use(values)
        self.compiles_each_shape = self.compiles_each_shape or compile_each_shape()
        versions = [parameter._version for parameter in self.tensors.parameters.values()]
        try:
            loss, found = measure(self.call, self.model, batch, self.job, self.device.torch, key)
            self.checks.values_kept(versions, "evaluated")
        finally:
            self._use(self.values)
        # Nothing of the state depends on an evaluation, and the next micro-batch is not to blame.
        if self.device.memory_was_full() and not self.told_full:
            self.told_full = True
            line = "the GPU had too little memory left in an evaluation: its numbers may differ in their last bits"
            self.library.rk_log(2, line.encode())
        evaluation.loss.sum, evaluation.loss.count = loss * evaluation.count, evaluation.count
        self.metrics.store(evaluation.metrics, found)


def train(library: ctypes.CDLL, trainer: int, job: dict[str, Any], call: Call) -> int:
    """Trains until the run ends. Returns the exit code of the process."""
    ignore_group_signals()  # again: the script may have handlers of its own, for when it runs alone
    set_up(job)
    task = Task(library, trainer, job, call)
    calls = calls_of(task)
    ignore_group_signals()  # the functions of the script that were called may have set others
    return library.rk_run(trainer, ctypes.byref(calls))
