"""rekindle._device without a GPU: a library and a torch that are not there.

python tests/python/device.py NAME prints the error that the case ends with.
"""

import ctypes
import sys

import torch

from rekindle import _device, _errors, _library, _recurrent

OLD_DRIVER = b"the NVIDIA driver is for CUDA 12.4, and this build needs 13.0: update the driver"


class Library:
    def __init__(self, opens: bool) -> None:
        self.opens = opens

    def rk_open_device(self, trainer: int, opened: ctypes.Array) -> int:
        opened._obj.gpu = 0
        return _library.OK if self.opens else _library.FAILED

    def rk_error(self) -> bytes:
        return OLD_DRIVER

    def rk_exit_code(self) -> int:
        return _errors.CONFIG


def old_driver() -> None:
    _device.Device(Library(opens=False), 0, "cuda")


def torch_sees_none() -> None:
    _device.Device(Library(opens=True), 0, "cuda")


def other_allocator() -> None:
    def attach(observer: object) -> None:
        raise RuntimeError("cudaMallocAsync does not yet support attachOutOfMemoryObserver.\nException raised from")

    torch.cuda.is_available = lambda: True
    torch.cuda.set_device = torch.cuda.init = lambda *_: None
    torch._C._cuda_attach_out_of_memory_observer = attach
    _device.Device(Library(opens=True), 0, "cuda")


def full() -> None:
    print(_errors.hint_for(torch.cuda.OutOfMemoryError("CUDA out of memory.")))
    print(_errors.hint_for(RuntimeError("another")) == _errors.IN_THE_LOG)


def full_in_an_evaluation() -> None:
    """What an evaluation has found full is no error of the micro-batch after it."""
    device = object.__new__(_device.Device)
    device._was_full = False
    device._note_full()
    print(device.memory_was_full(), device.memory_was_full())
    device.check_memory()
    torch.cuda.get_device_name = lambda *_: "A GPU"
    device.torch = None
    device._note_full()
    device.check_memory()


def recurrent() -> None:
    """Where cuDNN may be used: not with dropout between the layers."""
    _recurrent.set_up_recurrent_layers()
    seen, original = [], torch._VF.lstm
    torch._VF.lstm = lambda *values: seen.append(torch.backends.cudnn.enabled) or original(*values)
    for dropout in (0.3, 0.0):
        layer = torch.nn.LSTM(4, 4, 2, dropout=dropout)
        layer.flatten_parameters()
        layer(torch.zeros(1, 1, 4))
        layer.eval()(torch.zeros(1, 1, 4))
    print(*seen, torch.backends.cudnn.enabled)


try:
    globals()[sys.argv[1]]()
except _errors.RekindleError as error:
    print(error.code, error)
