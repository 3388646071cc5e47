"""What a script must not do while it computes: a checkpoint would lack it, or the bits would depend on the trainers."""

from __future__ import annotations

import weakref

import torch
from torch import nn

from rekindle._errors import RekindleError
from rekindle._model import Tensors


def leaves_of(loss: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that its backward pass gives a gradient. A reentrant checkpoint and the like hide some of them."""
    if loss.grad_fn is None:
        return [loss]
    leaves = []
    seen, waiting = {loss.grad_fn}, [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if type(node).__name__ == "AccumulateGrad":
            leaves.append(node.variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return leaves


_BUFFERS = (
    "what a forward pass changes has to be a buffer, as the weights of a mean teacher; for a mask or a bound, compute with "
    "weight * mask, or use a parametrization"
)
_SUMMED = 4  # steps: the factor of the rates may be 0 in the first ones


def _sum_of_bits(value: torch.Tensor) -> torch.Tensor:
    """Of pairs as int64, which torch adds without a copy; it may overflow. As int32, a factor of 0.5 might not show."""
    values = value.flatten()
    pairs = values[: values.numel() // 2 * 2].view(torch.int64)
    return pairs.sum() + values[2 * pairs.numel() :].view(torch.int32).sum()


class Checks:
    """The checks of a trainer's model."""

    def __init__(self, tensors: Tensors, values: list[torch.Tensor]) -> None:
        """`values`: the memory of the parameters."""
        self.tensors, self.values = tensors, values
        self.micro_batches = 0  # whose graphs were looked at: two
        self.others: list[weakref.ref] = []  # the leaves of the first graph that are not the model's
        self.summed, self.last_summed = 0, 0  # steps with sums(), and the last one

    def first_losses(self, loss: torch.Tensor) -> None:
        """Whether the model is all that a loss trains and keeps. A leaf that only one micro-batch has was made for it, as
        for a penalty.
        """
        if self.micro_batches == 2:
            return
        self.micro_batches += 1
        known = {id(parameter) for parameter in self.tensors.parameters.values()}
        others = [leaf for leaf in leaves_of(loss) if id(leaf) not in known]
        before = {id(leaf) for each in self.others if (leaf := each()) is not None}
        for leaf in others:
            if id(leaf) in before:
                raise _not_the_models(leaf)
        self.others = [weakref.ref(leaf) for leaf in others]
        for name in self.tensors.new_buffers():
            raise RekindleError(
                f"buffer {name} appeared in a micro-batch, and is not part of the state",
                "register it with its first value when the module is made",
            )

    def values_kept(self, versions: list[int], doing: str) -> None:
        for version, (name, parameter) in zip(versions, self.tensors.parameters.items()):
            if parameter._version != version:
                raise RekindleError(
                    f"the script changed parameter {name} while it {doing}",
                    f"only the update changes parameters; {_BUFFERS}, and Embedding must not have max_norm",
                )

    def sums(self, step: int) -> torch.Tensor | None:
        """The sum of the bits of each parameter, in a few steps of a trainer, before and after a micro-batch. A change
        through .data leaves the version. The self-check does not find the mean of a teacher and a student that begin
        equal: it changes nothing before the first update.
        """
        if step == self.last_summed or self.summed == _SUMMED:
            return None
        self.summed, self.last_summed = self.summed + 1, step
        return self._sums()

    def sums_kept(self, before: torch.Tensor | None) -> None:
        """Errors: a parameter has other bits than sums() has seen."""
        if before is None or torch.equal(after := self._sums(), before):
            return
        name = list(self.tensors.parameters)[int((after != before).nonzero()[0])]
        raise RekindleError(
            f"the script changed parameter {name} through .data while it computed a gradient",
            f"only the update changes parameters; {_BUFFERS}",
        )

    def _sums(self) -> torch.Tensor:
        with torch.no_grad():
            return torch.stack([_sum_of_bits(value) for value in self.values[: len(self.tensors.parameters)]])

    def unchanged(self) -> None:
        for value, (name, parameter) in zip(self.values, self.tensors.parameters.items()):
            if parameter.data_ptr() != value.data_ptr():
                raise RekindleError(f"the script replaced the memory of parameter {name}", f"leave .data alone; {_BUFFERS}")
        for name, (buffer, version) in self.tensors.constants.items():
            if self.tensors.buffer(name) is not buffer or buffer._version != version:
                raise RekindleError(f"buffer {name} has changed, and is not persistent", "make it persistent, then it is part of the state")  # fmt: skip


def _not_the_models(leaf: torch.Tensor) -> RekindleError:
    if isinstance(leaf, nn.Parameter):
        return RekindleError(
            f"the loss uses a parameter of shape {list(leaf.shape)} that is not the model's",
            "make it a part of the module; if it is not trained, use requires_grad_(False) or torch.no_grad()",
        )
    return RekindleError(
        f"the loss uses a tensor of shape {list(leaf.shape)} that requires a gradient and is not the model's",
        "if it is trained, make it an nn.Parameter of the module; if not, use tensor.detach().requires_grad_()",
    )
