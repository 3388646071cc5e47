"""The model of a script, and its tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import nn

from rekindle._errors import RekindleError, one_line
from rekindle._names import Buffer, buffers_of, names_by_id, parameters_of
from rekindle._optimizer import DTYPES


def make_model(given: Callable[[], nn.Module] | nn.Module) -> nn.Module:
    """The module that run()'s argument is, or makes."""
    model = given if isinstance(given, nn.Module) else given()
    if not isinstance(model, nn.Module):
        raise RekindleError(f"model is {type(model).__name__}", "give a torch.nn.Module, or a function that makes it")
    return model


def make_dense(model: nn.Module) -> None:
    """Gives each saved buffer that repeats its elements, as of expand(), memory for all: values are copied into it."""
    dense: dict[int, torch.Tensor] = {}  # modules may share one
    for buffer in buffers_of(model):
        value = buffer.value()
        repeats = value.layout == torch.strided and any(n > 1 and stride == 0 for n, stride in zip(value.shape, value.stride()))
        if buffer.persistent and repeats:
            if id(value) not in dense:
                dense[id(value)] = value.clone(memory_format=torch.contiguous_format)
            buffer.module._buffers[buffer.attribute] = dense[id(value)]


class Tensors:
    """Parameters and persistent buffers of a module, each once, with their names in state_dict()."""

    def __init__(self, model: nn.Module) -> None:
        state = model.state_dict(keep_vars=True)
        for name, value in state.items():
            if not isinstance(value, torch.Tensor):
                raise RekindleError(
                    f"{name} in the model's state_dict() is {type(value).__name__}", "only tensors are saved: keep it in a buffer"
                )
        names = names_by_id(state)
        self.model = model
        self.parameters = parameters_of(model, names)
        if not self.parameters:
            raise RekindleError("the model has no parameters")
        self.buffers: dict[str, torch.Tensor] = {}
        # Those that are not part of the state, as they have to stay.
        self.constants: dict[str, tuple[torch.Tensor, int]] = {}
        self.owners: dict[str, Buffer] = {}
        self.registered = {buffer.path for buffer in buffers_of(model)}
        seen = set()
        for buffer in sorted(buffers_of(model), key=lambda buffer: not buffer.persistent):  # one tensor may be both
            value = buffer.value()
            if id(value) in seen:
                continue
            seen.add(id(value))
            name = names.get(id(value), [buffer.path])[0]
            self.owners[name] = buffer
            if buffer.persistent and id(value) in names:  # a hook may leave it out
                self.buffers[name] = value
            else:
                self.constants[name] = (value, value._version)
        # Other names of tensors that modules share.
        first = {id(tensor): name for name, tensor in {**self.parameters, **self.buffers}.items()}
        self.tied = {name: first[id(value)] for name, value in state.items() if first.get(id(value), name) != name}
        for name in state:
            if not any(name in known for known in (self.parameters, self.buffers, self.tied)):
                raise RekindleError(
                    f"{name} in the model's state_dict() is neither a parameter nor a persistent buffer",
                    "only these are saved, so keep it in a buffer",
                )
        for name, tensor in {**self.parameters, **self.buffers}.items():
            _check(name, tensor, name in self.parameters)
        _check_memory({**self.parameters, **{name: buffer.value() for name, buffer in self.owners.items()}}, self.parameters)

    def check_on_cpu(self) -> None:
        """Errors: the script has moved a tensor."""
        for name, tensor in {**self.parameters, **self.buffers}.items():
            if tensor.device.type != "cpu":
                raise RekindleError(f"the model's tensor {name} is on {tensor.device}", "leave the model on the CPU: device='cuda' moves it")  # fmt: skip

    def specs(self) -> list[dict[str, Any]]:
        """As in app/script.hpp."""
        return [
            {"name": name, "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "role": role}
            for role, tensors in (("parameter", self.parameters), ("buffer", self.buffers))
            for name, tensor in tensors.items()
        ]

    def buffer(self, name: str) -> torch.Tensor:
        """A buffer as it is now: a module may have replaced it."""
        return self.owners[name].value()

    def new_buffers(self) -> list[str]:
        """Persistent buffers that had no value when the model was made."""
        return [each.path for each in buffers_of(self.model) if each.persistent and each.path not in self.registered]


def _hint_for_name(name: str, there: Collection[str]) -> str:
    """For a tensor that a checkpoint has not. Wrappers of a module put a part into the names of its tensors."""
    for part, wrapper, advice in (
        ("_orig_mod", "torch.compile(model)", "; model.compile() keeps the names"),
        ("module", "a wrapper such as DataParallel(model)", ""),
    ):

        def without(name: str, part: str = part) -> str:
            return ".".join(each for each in name.split(".") if each != part)

        if any(other != name and without(other) == name for other in there):
            return f"the run trained {wrapper}: load into that{advice}"
        if without(name) != name and without(name) in there:
            return f"the run trained the model without {wrapper}: load into that"
    return "has the script changed?"


def fill(model: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Loads a state dict. Errors: the first tensor that is another one, or not in both; the model is as it was then."""
    expected = model.state_dict()
    for name, own in expected.items():
        if nn.parameter.is_lazy(own):
            raise RekindleError(f"the model's tensor {name} has no shape yet", "call the model once first")
        if isinstance(own, torch.Tensor) and own.is_meta:
            raise RekindleError(f"the model's tensor {name} has no memory", "model.to_empty(device='cpu') first")
        if name not in tensors:
            raise RekindleError(f"the checkpoint is of another model: it has no {name}", _hint_for_name(name, tensors))
        there = tensors[name]
        if own.shape != there.shape or DTYPES.get(own.dtype) != DTYPES[there.dtype]:
            is_converted = own.shape == there.shape and there.dtype == torch.float32 and own.is_floating_point()
            raise RekindleError(
                f"the checkpoint is of another model: its {name} is {_kind(there)}, the model's is {_kind(own)}",
                "load into a float32 model, then convert it" if is_converted else "has the script changed?",
            )
    if (more := next((name for name in tensors if name not in expected), None)) is not None:
        raise RekindleError(
            f"the checkpoint is of another model: it has {more}, which the module has not",
            "load into the whole model, then take the part",
        )
    make_dense(model)  # as in a trainer: values are copied into its buffers
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        lines = str(error).splitlines()  # the first is a heading
        what = lines[1].strip() if len(lines) > 1 else one_line(error)
        raise RekindleError(f"the checkpoint is of another model: {what}", "has the script changed?") from error


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _check(name: str, tensor: torch.Tensor, is_parameter: bool) -> None:
    if nn.parameter.is_lazy(tensor):
        raise RekindleError(
            f"the model's tensor {name} has no shape yet", "call the model once in the function that makes it, or give sizes"
        )
    if is_parameter and tensor.dtype != torch.float32:
        raise RekindleError(
            f"the model's parameter {name} is {tensor.dtype}",
            "parameters have to be float32; precision='bf16' computes with bfloat16",
        )
    if tensor.dtype not in DTYPES:
        raise RekindleError(f"the model's buffer {name} is {tensor.dtype}", "use another type, or persistent=False")
    if tensor.layout != torch.strided or tensor.numel() == 0:
        instead = "" if is_parameter else ", or persistent=False, if the buffer does not change"
        raise RekindleError(f"the model's tensor {name} is sparse or empty", f"use dense tensors with elements{instead}")


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses from its first element to behind its last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _check_memory(tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]) -> None:
    """Errors: a parameter that has elements in the memory of another tensor. In the run's memory it would have its own."""
    dense = {name: each for name, each in tensors.items() if each.layout == torch.strided and each.numel() > 0 and not each.is_meta}
    ranges = sorted((*_range(tensor), name) for name, tensor in dense.items())
    for i, (_, end, name) in enumerate(ranges):
        for begin, _, other in ranges[i + 1 :]:
            if begin >= end:
                break
            if (name in parameters or other in parameters) and _overlap(dense[name], dense[other]):
                raise RekindleError(f"the model's tensors {name} and {other} share memory", "tie the Parameter itself, not its .data")


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of two tensors whose ranges overlap: they may be columns of one matrix."""
    storage = one.untyped_storage()
    if storage.data_ptr() != other.untyped_storage().data_ptr() or one.element_size() != other.element_size():
        return True
    indices = torch.arange(storage.nbytes() // one.element_size())
    used = torch.zeros(len(indices), dtype=torch.bool)
    used[indices.as_strided(one.shape, one.stride(), one.storage_offset()).flatten()] = True
    return bool(used[indices.as_strided(other.shape, other.stride(), other.storage_offset()).flatten()].any())
