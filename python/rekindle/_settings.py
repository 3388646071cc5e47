"""What makes the bits of a trainer besides the script: settings, and the fingerprint of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import sys
from typing import Any

import torch

from rekindle._script_folder import modules_folder


def _use_deterministic_algorithms() -> None:
    """As torch's function of that name, which first imports the compiler: 3 s of a core at each start of a trainer."""
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"  # the compiler reads it when it is imported
    if "torch._inductor" in sys.modules or not hasattr(torch._C, "_set_deterministic_algorithms"):
        torch.use_deterministic_algorithms(True)
    else:
        torch._C._set_deterministic_algorithms(True, warn_only=False)


def set_up(job: dict[str, Any]) -> None:
    """Settings that make the bits."""
    # A worker sets it for trainers. cuBLAS reads it when it computes first.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(job["threads"])
    _use_deterministic_algorithms()
    if hasattr(torch.utils, "deterministic"):  # from torch 2.2 on
        torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    tf32 = job["precision"] == "tf32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


_MOST_SHAPES = 64


def compile_each_shape() -> bool:
    """For a script that has imported the compiler. By default the second shape that a process meets is compiled for all
    later shapes, and what has been compiled eight times is no longer compiled: the bits of a micro-batch would depend on
    those that its trainer computed before. False: it is not imported yet, as by a loss that is the first to compile.
    """
    if "torch._dynamo" not in sys.modules:
        return False
    config = sys.modules["torch._dynamo"].config
    config.automatic_dynamic_shapes = False
    for name in ("recompile_limit", "cache_size_limit"):  # the second is the name before torch 2.7
        if hasattr(config, name):
            setattr(config, name, max(_MOST_SHAPES, getattr(config, name)))
    for name in ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"):
        if hasattr(config, name):
            setattr(config, name, True)
    return True


_ELSEWHERE = {"torch", "numpy", "rekindle"}  # their versions are compared, or the build
_OF_THE_MACHINE = {"sitecustomize", "usercustomize"}


def _modules_outside(folder: str) -> list[str]:
    """Files of imported modules that no installer has put there, such as those of an editable install or of PYTHONPATH,
    and that are not in `folder`. In the order of their names: nodes may have them in different places.
    """
    of_python = os.path.dirname(os.__file__)
    apart = (folder + os.sep, of_python + os.sep, os.path.realpath(of_python) + os.sep)
    names: dict[str, str] = {}
    for name, module in sorted(sys.modules.copy().items()):
        file = getattr(module, "__file__", None) or ""
        installed = not {"site-packages", "dist-packages"}.isdisjoint(file.split(os.sep))
        known = name.partition(".")[0] in {"__main__", "__mp_main__"} | _ELSEWHERE | _OF_THE_MACHINE
        if file.endswith(".py") and os.path.isfile(file) and not (known or installed or file.startswith(apart)):
            names.setdefault(file, name)
    return list(names)


def _hash_of_script(script: str, folder: str) -> str:
    """Of the script and its modules."""
    hasher = hashlib.sha256()
    folder = modules_folder(folder)
    modules = {
        module.__file__
        for module in list(sys.modules.values())
        if (getattr(module, "__file__", None) or "").startswith(folder + os.sep)
        and module.__name__ != "__main__"
        and module.__file__.endswith(".py")
        and "site-packages" not in module.__file__
    }
    # The script's path is that of the run, which may be moved.
    for path in [script, *sorted(modules), *_modules_outside(folder)]:
        with open(path, "rb") as file:
            hasher.update(file.read())
    return hasher.hexdigest()[:16]


def fingerprint(job: dict[str, Any], device: dict[str, str]) -> dict[str, str]:
    """`device`: of Device.describe()."""
    numpy = sys.modules.get("numpy")
    entries = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": getattr(numpy, "__version__", "none"),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(job["threads"]),
        **device,
        "script": _hash_of_script(job["script"], job["script_folder"]),
    }
    if job["script_arguments"]:
        entries["script_arguments"] = shlex.join(job["script_arguments"])
    for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR"):
        entries[name] = os.environ.get(name, "")
    return entries


def cpu_name() -> str:
    """As Linux names it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
