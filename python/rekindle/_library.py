"""librekindle.so through ctypes. The layouts are those of capi/rekindle.h, where each function is described."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence

from rekindle._errors import CONFIG, RekindleError
from rekindle._programs import PACKAGE

INTERFACE = 6
OK, FAILED, ABORTED, NOT_NOW = 0, 1, 2, 3
ROLES = {"parameter": 0, "buffer": 1, "optimizer": 2}


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("dtype", c.c_char_p),
        ("shape", c.POINTER(c.c_int64)),
        ("dimensions", c.c_int32),
        ("role", c.c_int32),
    ]


class Device(c.Structure):
    _fields_ = [("gpu", c.c_int32), ("stream", c.c_void_p)]


class Sum(c.Structure):
    _fields_ = [("sum", c.c_double), ("count", c.c_uint64)]


class MicroBatch(c.Structure):
    _fields_ = [
        ("step", c.c_uint64),
        ("micro_batch", c.c_int32),
        ("gradient", c.c_void_p),
        ("received", c.POINTER(c.c_uint8)),
        ("buffers", c.POINTER(c.c_void_p)),
        ("aborted", c.POINTER(c.c_uint8)),
        ("loss", c.c_double),
        ("metrics", c.POINTER(Sum)),
        ("waited_ms", c.c_double),
    ]


class Step(c.Structure):
    _fields_ = [
        ("step", c.c_uint64),
        ("gradient", c.c_void_p),
        ("received", c.POINTER(c.c_uint8)),
        ("factor", c.c_double),
    ]


class Evaluation(c.Structure):
    _fields_ = [
        ("first", c.c_uint64),
        ("count", c.c_uint64),
        ("averaged", c.c_int32),
        ("loss", Sum),
        ("metrics", c.POINTER(Sum)),
    ]


_Numbers = c.POINTER(c.c_int32)
Initialize = c.CFUNCTYPE(c.c_int)
ExpectSteps = c.CFUNCTYPE(c.c_int, c.c_uint64, _Numbers, c.c_size_t, _Numbers, c.c_size_t)
EndOfSteps = c.CFUNCTYPE(c.c_int)
Train = c.CFUNCTYPE(c.c_int, c.POINTER(MicroBatch))
Evaluate = c.CFUNCTYPE(c.c_int, c.POINTER(Evaluation))
RateFactor = c.CFUNCTYPE(c.c_int, c.c_uint64, c.POINTER(c.c_double))
Optimize = c.CFUNCTYPE(c.c_int, c.POINTER(Step))
SaveOptimizer = c.CFUNCTYPE(c.c_int)
LoadOptimizer = c.CFUNCTYPE(c.c_int)
FreeMemory = c.CFUNCTYPE(c.c_int)


class Calls(c.Structure):
    _fields_ = [
        ("initialize", Initialize),
        ("expect_steps", ExpectSteps),
        ("end_of_steps", EndOfSteps),
        ("train", Train),
        ("evaluate", Evaluate),
        ("rate_factor", RateFactor),
        ("optimize", Optimize),
        ("save_optimizer", SaveOptimizer),
        ("load_optimizer", LoadOptimizer),
        ("free_memory", FreeMemory),
    ]


_Trainer = c.c_void_p
_FUNCTIONS = {
    "rk_interface": (c.c_int,),
    "rk_build": (c.c_char_p,),
    "rk_error": (c.c_char_p,),
    "rk_open": (_Trainer, c.c_int, c.POINTER(c.c_char_p)),
    "rk_exit_code": (c.c_int,),
    "rk_job": (c.c_char_p, _Trainer),
    "rk_log": (None, c.c_int, c.c_char_p),
    "rk_look_for_gpu": (c.c_int,),
    "rk_open_device": (c.c_int, _Trainer, c.POINTER(Device)),
    "rk_set_state": (c.c_int, _Trainer, c.POINTER(Tensor), c.c_size_t, c.c_char_p, c.c_char_p),
    "rk_value": (c.c_void_p, _Trainer, c.c_size_t),
    "rk_average": (c.c_void_p, _Trainer, c.c_size_t),
    "rk_place": (c.c_size_t, _Trainer, c.c_size_t),
    "rk_samples": (
        c.c_size_t, _Trainer, c.c_uint64, c.c_int32, c.POINTER(c.c_uint64), c.POINTER(c.c_uint64),
    ),
    "rk_initial_key": (c.c_uint64, c.c_uint64),
    "rk_micro_batch_key": (c.c_uint64, c.c_uint64, c.c_uint64, c.c_int32),
    "rk_sample_key": (c.c_uint64, c.c_uint64, c.c_uint64, c.c_uint64),
    "rk_add_metric": (None, _Trainer, c.c_char_p),
    "rk_fail": (None, _Trainer, c.c_char_p, c.c_char_p),
    "rk_give_up": (c.c_int, _Trainer, c.c_int, c.c_char_p, c.c_char_p),
    "rk_run": (c.c_int, _Trainer, c.POINTER(Calls)),
}  # fmt: skip


def load() -> c.CDLL:
    """The library, with the types of its functions. Its symbols are seen by nobody else."""
    library = c.CDLL(str(PACKAGE / "librekindle.so"), mode=c.RTLD_LOCAL)
    if library.rk_interface() != INTERFACE:  # before the others, which another version may not have
        raise RekindleError("librekindle.so is of another version than the package", "install rekindle again", CONFIG)
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def arguments(words: Sequence[str]) -> tuple[int, c.Array]:
    """argc and argv, which live as long as the array."""
    encoded = [word.encode() for word in words]
    return len(encoded), (c.c_char_p * (len(encoded) + 1))(*encoded, None)
