"""The model of a script: its tensors, and what the front end learns of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import default_collate

from rekindle._call import Call
from rekindle._data import make_dataset
from rekindle._errors import RekindleError, one_line
from rekindle._evaluation import check_metrics
from rekindle._optimizer import DTYPES, Template


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
        module, attribute = self.owners[name]
        return getattr(module, attribute)


def fill(model: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Loads a state dict. Errors: the first tensor that is another one, or not in both."""
    for name, own in model.state_dict().items():
        if name not in tensors:
            raise RekindleError(f"the checkpoint is of another model: it has no {name}", "has the script changed?")
        if own.shape != tensors[name].shape:
            raise RekindleError(
                f"the checkpoint is of another model: its {name} is {list(tensors[name].shape)}, the model's is "
                f"{list(own.shape)}",
                "has the script changed?",
            )
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        raise RekindleError(f"the checkpoint is of another model: {one_line(error)}", "has the script changed?") from error


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, attribute = name.rpartition(".")
    return model.get_submodule(path), attribute


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
        raise RekindleError(f"the model's tensor {name} is sparse or empty", "use dense tensors with elements")


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
    train_data = make_dataset(call.train_data, "train_data", 0)
    test_data = None if call.test_data is None else make_dataset(call.test_data, "test_data", 0)
    model = make_model(call.model)
    found = Tensors(model)
    found.check_on_cpu()
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
        "has_gpu": torch.cuda.is_available(),
    }
