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


def _hash_of_script(script: str, folder: str) -> str:
    """Of the script and its modules, those in its folder or package."""
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
    for path in [script, *sorted(modules)]:  # the script's path is that of the run, which may be moved
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
