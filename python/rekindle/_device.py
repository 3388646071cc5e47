"""The device of a trainer: memory of the library as tensors, and batches moved to it."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from rekindle import _library
from rekindle._errors import FULL_GPU, RekindleError, one_line
from rekindle._recurrent import set_up_recurrent_layers


def host_memory(address: int, like: torch.Tensor) -> torch.Tensor:
    """Memory of the host as a tensor with the type and shape of another one."""
    size = like.numel() * like.element_size()
    bytes_there = (ctypes.c_char * size).from_address(address)
    return torch.frombuffer(bytes_there, dtype=like.dtype).view(like.shape)


def copy_all(to: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """Copies many tensors: on a GPU at once, because each copy by itself costs the interpreter more time than the GPU."""
    with torch.no_grad():
        if hasattr(torch, "_foreach_copy_"):
            torch._foreach_copy_(to, values)
        else:
            for each, value in zip(to, values):
                each.copy_(value)


class _GpuBytes:
    """Memory of a GPU as torch.as_tensor() takes it, without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 3,
        }  # fmt: skip


class Device:
    """Where the model computes. With the host twin of a GPU (--device twin) that is the CPU."""

    def __init__(self, library: ctypes.CDLL, trainer: int, name: str) -> None:
        """`name`: the job's device. Errors: there is no such device, or torch cannot use it."""
        opened = _library.Device()
        # Before torch is asked: the library knows why there is no GPU.
        if library.rk_open_device(trainer, ctypes.byref(opened)) != _library.OK:
            raise RekindleError(library.rk_error().decode(), code=library.rk_exit_code())
        if name == "cuda" and not torch.cuda.is_available():
            reason = "sees no GPU" if torch.version.cuda else "was built without CUDA"
            raise RekindleError(f"torch {torch.__version__} {reason}", "use device='cpu', or another torch")
        self.name = name
        self.is_gpu = opened.gpu >= 0
        self.is_late = name != "cpu"  # what is computed now runs later
        self.torch = torch.device("cuda", opened.gpu) if self.is_gpu else torch.device("cpu")
        self._was_full = False
        if self.is_gpu:
            torch.cuda.set_device(self.torch)
            torch.cuda.init()
            self._watch_memory()
            # All calls are made in this thread: every operation of the script is on the stream of the exchange and the
            # update, so none of them has to wait for another.
            torch.cuda.set_stream(torch.cuda.ExternalStream(opened.stream, device=self.torch))
            # A thread of autograd would have another stream where a script asks for the current one.
            torch.autograd.set_multithreading_enabled(False)
            set_up_recurrent_layers()

    def _watch_memory(self) -> None:
        """Errors: torch's allocator does not say when the GPU is full, so other bits would not be noticed."""
        try:
            torch._C._cuda_attach_out_of_memory_observer(self._note_full)
        except (AttributeError, RuntimeError) as error:
            raise RekindleError(
                f"torch's allocator of GPU memory cannot be watched: {one_line(error)}",
                "unset PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, or leave backend:cudaMallocAsync out of them",
            ) from error

    def _note_full(self, *_: object) -> None:
        self._was_full = True

    def memory_was_full(self) -> bool:
        """Whether the GPU had no memory since the last call, though nobody said so."""
        full, self._was_full = self._was_full, False
        return full

    def check_memory(self) -> None:
        """An error if the GPU had no memory: cuDNN takes another algorithm then, with other bits."""
        if self.memory_was_full():
            raise RekindleError(
                f"{torch.cuda.get_device_name(self.torch)} has too little memory: the bits could be others",
                FULL_GPU,
            )

    def free_memory(self) -> None:
        """Gives back what torch keeps for later: the library takes memory beside torch's."""
        torch.cuda.empty_cache()

    def memory(self, address: int, like: torch.Tensor) -> torch.Tensor:
        """Memory of the state or of a gradient as a tensor with the type and shape of another one."""
        if not self.is_gpu:
            return host_memory(address, like)
        size = like.numel() * like.element_size()
        there = torch.as_tensor(_GpuBytes(address, size), device=self.torch)
        if there.data_ptr() != address:
            raise RuntimeError("torch made a copy of the library's memory")
        return there.view(like.dtype).view(like.shape)

    def move_model(self, model: nn.Module) -> None:
        """As model.to(), but modules that share a buffer still share it."""
        if not self.is_gpu:
            return
        holders: dict[int, list[tuple[nn.Module, str]]] = {}
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    holders.setdefault(id(buffer), []).append((module, name))
        model.to(self.torch)
        for (first, name), *others in holders.values():
            for module, other in others:
                module._buffers[other] = first._buffers[name]

    def batch(self, batch: Any) -> Any:
        """The batch with all its tensors here."""
        return moved(batch, self.torch) if self.is_gpu else batch

    def describe(self) -> dict[str, str]:
        """For the fingerprint: what can change the bits."""
        if not self.is_gpu:
            return {"device": self.name}
        return {
            "device": self.name, "gpu": torch.cuda.get_device_name(self.torch), "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
        }  # fmt: skip


def moved(batch: Any, device: torch.device) -> Any:
    """The tensors in dicts, lists, tuples and objects with a to() on a device; everything else as it is."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, (str, bytes)):
        return batch
    if callable(getattr(batch, "to", None)):
        return batch.to(device)
    if isinstance(batch, Mapping):
        values = {key: moved(value, device) for key, value in batch.items()}
        if type(batch) is dict:
            return values
        if not hasattr(batch, "update"):
            return type(batch)(values)
        changed = copy.copy(batch)  # a defaultdict and the like are made in other ways
        changed.update(values)
        return changed
    if isinstance(batch, tuple):
        values = [moved(value, device) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    if isinstance(batch, list):
        return type(batch)(moved(value, device) for value in batch)
    return batch
