"""A trainer's computation: micro-batches of the model, its loss and its data, for the step loop in C++."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import default_collate

from rekindle import _library
from rekindle._call import Call
from rekindle._data import Loader, make_dataset
from rekindle._errors import Aborted, RekindleError, one_line
from rekindle._evaluation import check_metrics, measure, precision, test_batch
from rekindle._optimizer import DTYPES, OwnOptimizer, Template
from rekindle._random import seed_all


# ---- the model ----


def make_model(given: Callable[[], nn.Module] | nn.Module) -> nn.Module:
    """The module that run()'s argument is, or makes."""
    model = given if isinstance(given, nn.Module) else given()
    if not isinstance(model, nn.Module):
        raise RekindleError(f"model is {type(model).__name__}", "give a torch.nn.Module, or a function that makes it")
    return model


class Tensors:
    """Parameters and persistent buffers of a module, each once, with their names in state_dict()."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = dict(model.named_parameters())
        if not self.parameters:
            raise RekindleError("the model has no parameters")
        kept = model.state_dict(keep_vars=True)
        self.buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
        self.owners = {name: _owner(model, name) for name, _ in model.named_buffers()}
        names = {id(tensor): name for name, tensor in {**self.parameters, **self.buffers}.items()}
        # Other names of tensors that modules share.
        self.tied = {name: names[id(tensor)] for name, tensor in kept.items() if names.get(id(tensor), name) != name}
        # Those that are not part of the state, as they have to stay.
        self.constants = {name: (each, each._version) for name, each in model.named_buffers() if name not in kept}
        for name, tensor in {**self.parameters, **self.buffers}.items():
            _check(name, tensor, name in self.parameters)

    def specs(self) -> list[dict[str, Any]]:
        """As in app/script.hpp."""
        return [
            {"name": name, "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "role": role}
            for role, tensors in (("parameter", self.parameters), ("buffer", self.buffers))
            for name, tensor in tensors.items()
        ]

    def buffer(self, name: str) -> torch.Tensor:
        """A buffer as it is now: a module may have replaced it."""
        module, attribute = self.owners[name]
        return getattr(module, attribute)


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, attribute = name.rpartition(".")
    return model.get_submodule(path), attribute


def _check(name: str, tensor: torch.Tensor, is_parameter: bool) -> None:
    if tensor.device.type != "cpu":
        raise RekindleError(f"the model's tensor {name} is on {tensor.device}", "leave the model on the CPU")
    if is_parameter and tensor.dtype != torch.float32:
        raise RekindleError(
            f"the model's parameter {name} is {tensor.dtype}",
            "parameters have to be float32; precision='bf16' computes with bfloat16",
        )
    if tensor.dtype not in DTYPES:
        raise RekindleError(f"the model's buffer {name} is {tensor.dtype}", "use another type, or persistent=False")
    if tensor.layout != torch.strided or tensor.numel() == 0:
        raise RekindleError(f"the model's tensor {name} is sparse or empty", "use dense tensors with elements")


def _memory(address: int, tensor: torch.Tensor) -> torch.Tensor:
    """Memory of the library as a tensor like another one."""
    size = tensor.numel() * tensor.element_size()
    bytes_there = (ctypes.c_char * size).from_address(address)
    return torch.frombuffer(bytes_there, dtype=tensor.dtype).view(tensor.shape)


# ---- what a script describes ----


def _metric_names(call: Call, model: nn.Module, test_data: Any) -> list[str]:
    if call.metrics is None:
        return []
    model.eval()
    with torch.no_grad():
        found = call.metrics(model, (call.collate or default_collate)([test_data[0]]))
    check_metrics(found)
    return list(found)


def describe(call: Call) -> dict[str, Any]:
    """See app/script.hpp."""
    train_data = make_dataset(call.train_data, "train_data")
    test_data = None if call.test_data is None else make_dataset(call.test_data, "test_data")
    model = make_model(call.model)
    found = Tensors(model)
    tensors = found.specs()
    if call.make_optimizer is not None:
        tensors += Template(call.make_optimizer, model).specs()
    return {
        "options": call.options,
        "tensors": tensors,
        "tied": [name for pair in found.tied.items() for name in pair],
        "train_samples": len(train_data),
        "test_samples": 0 if test_data is None else len(test_data),
        "metrics": _metric_names(call, model, test_data),
    }


# ---- the trainer ----


def set_up(job: dict[str, Any]) -> None:
    """Settings that make the bits."""
    torch.set_num_threads(job["threads"])
    torch.use_deterministic_algorithms(True)
    if hasattr(torch.utils, "deterministic"):  # from torch 2.2 on
        torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False


def _hash_of_script(script: str, folder: str) -> str:
    """Of the script and its modules, those in its folder."""
    hasher = hashlib.sha256()
    own = {script} | {
        module.__file__
        for module in list(sys.modules.values())
        if (getattr(module, "__file__", None) or "").startswith(folder + os.sep)
        and module.__name__ != "__main__"
        and module.__file__.endswith(".py")
        and "site-packages" not in module.__file__
    }
    for path in sorted(own):
        with open(path, "rb") as file:
            hasher.update(file.read())
    return hasher.hexdigest()[:16]


def _fingerprint(job: dict[str, Any]) -> dict[str, str]:
    numpy = sys.modules.get("numpy")
    entries = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": getattr(numpy, "__version__", "none"),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(job["threads"]),
        "device": "cpu",
        "script": _hash_of_script(job["script"], job["script_folder"]),
    }
    for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR"):
        entries[name] = os.environ.get(name, "")
    return entries


# It came with torch 2.3; before, a compiled model fails at the hook.
_is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)


def _cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


class Task:
    """The functions of rk_calls."""

    def __init__(self, library: ctypes.CDLL, trainer: int, job: dict[str, Any], call: Call) -> None:
        self.library, self.trainer, self.job, self.call = library, trainer, job, call
        self.seed = job["seed"]
        self.train_data = make_dataset(call.train_data, "train_data")
        evaluates = call.test_data is not None and job["test_samples"] > 0  # an audit does not
        self.test_data = make_dataset(call.test_data, "test_data") if evaluates else None
        for name, data, count in (
            ("train_data", self.train_data, job["train_samples"]),
            ("test_data", self.test_data or [], job["test_samples"]),
        ):
            if len(data) != count:
                raise RekindleError(f"{name} has {len(data)} samples here, and had {count} when this attempt began")
        self.loader = Loader(self.train_data, self._samples, self._sample_key, call.collate, job["loader_threads"])
        seed_all(library.rk_initial_key(self.seed))
        self.model = make_model(call.model)
        self.tensors = Tensors(self.model)
        self.gradients: dict[int, list[torch.Tensor]] = {}  # address of the memory -> a view for each parameter
        self.micro_batch: Any = None  # that of the call being made
        self.places: list[torch.Tensor] = []  # of its gradients
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
        described = self.tensors.specs() + (template.specs() if template is not None else [])
        specs = (_library.Tensor * len(described))()
        shapes = []
        for spec, tensor in zip(specs, described):
            shapes.append((ctypes.c_int64 * max(1, len(tensor["shape"])))(*tensor["shape"]))
            spec.name, spec.dtype = tensor["name"].encode(), tensor["dtype"].encode()
            spec.shape, spec.dimensions = shapes[-1], len(tensor["shape"])
            spec.role = _library.ROLES[tensor["role"]]
        machine = f"Python {platform.python_version()}, torch {torch.__version__}, {_cpu_name()}"
        fingerprint = json.dumps(_fingerprint(self.job)).encode()
        if self.library.rk_set_state(self.trainer, specs, len(specs), fingerprint, machine.encode()) != _library.OK:
            raise RekindleError(self.library.rk_error().decode())
        self.values, self.averages = [], []  # type: list[torch.Tensor], list[torch.Tensor]
        for i, tensor in enumerate(tensors.values()):
            self.values.append(_memory(self.library.rk_value(self.trainer, i), tensor))
            average = self.library.rk_average(self.trainer, i)
            self.averages.append(_memory(average, tensor) if average else self.values[-1])
        with torch.no_grad():
            for value, tensor in zip(self.values, tensors.values()):
                value.copy_(tensor)
        self._use(self.values)
        if template is not None:
            memory = [
                _memory(self.library.rk_value(self.trainer, len(tensors) + i), tensor)
                for i, (_, tensor) in enumerate(template.tensors)
            ]
            self.own = OwnOptimizer(self.call.make_optimizer, self.model, template, memory)
        self.offsets = [self.library.rk_place(self.trainer, i) for i in range(len(self.tensors.parameters))]
        for i, parameter in enumerate(self.tensors.parameters.values()):
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._gradient_hook(i))

    def _use(self, values: list[torch.Tensor]) -> None:
        for value, parameter in zip(values, self.tensors.parameters.values()):
            parameter.data = value

    def _load_buffers(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for value, name in zip(values[len(self.tensors.parameters) :], self.tensors.buffers):
                self.tensors.buffer(name).copy_(value)

    def _keep_initial(self) -> Callable[[], list[torch.Tensor]]:
        """A function that returns the initial values."""
        if isinstance(self.call.model, nn.Module):
            kept = [value.clone() for value in self.values]
            return lambda: kept

        def make_again() -> list[torch.Tensor]:
            seed_all(self.library.rk_initial_key(self.seed))
            tensors = Tensors(make_model(self.call.model))
            return [*tensors.parameters.values(), *tensors.buffers.values()]

        return make_again

    def initialize(self) -> None:
        with torch.no_grad():
            for value, initial in zip(self.values, self.restart()):
                value.copy_(initial)

    # -- the samples --

    def _samples(self, step: int, micro_batch: int) -> list[tuple[int, int]]:
        count = self.library.rk_samples(self.trainer, step, micro_batch, None, None)
        epochs, indices = (ctypes.c_uint64 * count)(), (ctypes.c_uint64 * count)()
        self.library.rk_samples(self.trainer, step, micro_batch, epochs, indices)
        return list(zip(epochs, indices))

    def _sample_key(self, epoch: int, index: int) -> int:
        return self.library.rk_sample_key(self.seed, epoch, index)

    def expect_steps(self, step: int, every: list[int], first: list[int]) -> None:
        self.loader.expect_steps(step, every, first)

    # -- a micro-batch --

    def _look_for_abort(self, *_: Any) -> None:
        if _is_compiling():  # the compiler traces this call: it must not become part of the model
            return
        if self.micro_batch is not None and self.micro_batch.aborted[0]:
            raise Aborted

    def _gradient_hook(self, index: int) -> Callable[[torch.Tensor], None]:
        def store(parameter: torch.Tensor) -> None:
            gradient, parameter.grad = parameter.grad, None
            if self.micro_batch is None or gradient is None:
                return
            self._look_for_abort()
            place = self.places[index]
            place.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
            self.micro_batch.received[index] = 1

        return store

    def _places_in(self, address: int) -> list[torch.Tensor]:
        if address not in self.gradients:
            self.gradients[address] = [
                _memory(address + 4 * offset, parameter)
                for offset, parameter in zip(self.offsets, self.tensors.parameters.values())
            ]
        return self.gradients[address]

    def train(self, micro_batch: Any) -> None:
        began = time.perf_counter()
        batch = self.loader.next(micro_batch.step, micro_batch.micro_batch)
        micro_batch.waited_ms = 1e3 * (time.perf_counter() - began)
        self.places = self._places_in(micro_batch.gradient)
        self.model.train()
        self._load_buffers(self.values)
        seed_all(self.library.rk_micro_batch_key(self.seed, micro_batch.step, micro_batch.micro_batch))
        self.micro_batch = micro_batch
        try:
            with precision(self.job):
                loss = self.call.loss(self.model, batch)
            _check_loss(loss)
            loss.backward()
        finally:
            self.micro_batch = None
        micro_batch.loss = loss.item()
        self._store_buffers(micro_batch)
        self._check_unchanged()

    def optimize(self, step: Any) -> None:
        places = self._places_in(step.gradient)
        gradients = [place if step.received[i] else None for i, place in enumerate(places)]
        self.own.step(step.factor, gradients)
        self._check_unchanged()

    def _store_buffers(self, micro_batch: Any) -> None:
        self.new_buffers = []  # alive until the next call
        for i, (name, old) in enumerate(self.tensors.buffers.items()):
            new = self.tensors.buffer(name).detach()
            if new.dtype != old.dtype or new.shape != old.shape:
                raise RekindleError(f"buffer {name} became {new.dtype} {list(new.shape)}", "keep its type and shape")
            self.new_buffers.append(new.contiguous())
            micro_batch.buffers[i] = self.new_buffers[-1].data_ptr()

    def _check_unchanged(self) -> None:
        for value, (name, parameter) in zip(self.values, self.tensors.parameters.items()):
            if parameter.data_ptr() != value.data_ptr():
                raise RekindleError(f"the script replaced the memory of parameter {name}", "leave .data alone")
        for name, (buffer, version) in self.tensors.constants.items():
            if self.tensors.buffer(name) is not buffer or buffer._version != version:
                raise RekindleError(f"buffer {name} has changed, and is not persistent", "make it persistent, then it is part of the state")  # fmt: skip

    # -- an evaluation --

    def evaluate(self, evaluation: Any) -> None:
        batch = test_batch(self.test_data, evaluation.first, evaluation.count, self.call, self._sample_key)
        self.model.eval()
        values = self.averages if evaluation.averaged else self.values
        self._load_buffers(values)
        self._use(values)
        try:
            loss, found = measure(self.call, self.model, batch, self.job)
        finally:
            self._use(self.values)
        evaluation.loss.sum, evaluation.loss.count = loss * evaluation.count, evaluation.count
        for i, (total, count) in enumerate(found.values()):
            evaluation.metrics[i].sum, evaluation.metrics[i].count = float(total), int(count)

    # -- the calls --

    @contextlib.contextmanager
    def _reported(self, what: str, result: list[int]) -> Iterator[None]:
        """Turns an exception of the script into a result, the traceback in the log."""
        try:
            yield
        except Aborted:
            result[0] = _library.ABORTED
        except BaseException as error:
            result[0] = _library.FAILED
            for line in traceback.format_exc().splitlines():
                self.library.rk_log(1, line.encode())
            last, hint = one_line(error), "the traceback is in the trainer's log"
            if isinstance(error, RekindleError):
                last, hint = error.what, error.hint
            self.library.rk_fail(self.trainer, f"{what}: {last}".encode(), hint.encode())

    def calls(self) -> _library.Calls:
        """These functions for the library. The object has to live as long as they are called."""

        def initialize() -> int:
            result = [_library.OK]
            with self._reported("initial values", result):
                self.initialize()
            return result[0]

        def expect_steps(step: int, every: Any, every_count: int, first: Any, first_count: int) -> int:
            result = [_library.OK]
            with self._reported("the loader", result):
                self.expect_steps(step, every[:every_count], first[:first_count])
            return result[0]

        def train(pointer: Any) -> int:
            result, batch = [_library.OK], pointer.contents
            with self._reported(f"step {batch.step}, micro-batch {batch.micro_batch}", result):
                self.train(batch)
            return result[0]

        def evaluate(pointer: Any) -> int:
            result, evaluation = [_library.OK], pointer.contents
            with self._reported(f"test samples from {evaluation.first} on", result):
                self.evaluate(evaluation)
            return result[0]

        def rate_factor(step: int, pointer: Any) -> int:
            result = [_library.OK]
            with self._reported(f"step {step}, the schedule", result):
                pointer[0] = 1.0 if self.call.factor is None else float(self.call.factor(step))
            return result[0]

        def optimize(pointer: Any) -> int:
            result, step = [_library.OK], pointer.contents
            with self._reported(f"step {step.step}, the optimizer", result):
                self.optimize(step)
            return result[0]

        def save_optimizer() -> int:
            result = [_library.OK]
            with self._reported("the optimizer's state", result):
                self.own.save()
            return result[0]

        def load_optimizer() -> int:
            result = [_library.OK]
            with self._reported("the optimizer's state", result):
                self.own.load()
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


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
        shape = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise RekindleError(f"the loss is {shape}", "return a scalar tensor: the mean over the batch")
    if not loss.requires_grad:
        raise RekindleError("the loss has no gradient", "compute it from the model's parameters, without no_grad()")


def train(library: ctypes.CDLL, trainer: int, job: dict[str, Any], call: Call) -> int:
    """Trains until the run ends. Returns the exit code of the process."""
    set_up(job)
    task = Task(library, trainer, job, call)
    calls = task.calls()
    return library.rk_run(trainer, ctypes.byref(calls))
