"""Errors that a person can mend, with the exit codes of the C++ program (base/result.hpp)."""

from __future__ import annotations

import builtins
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

USAGE = 64
GAVE_UP = 70
CONFIG = 78

IN_THE_LOG = "the traceback is in logs/trainer-*.log of the run"
NOT_SENT = "samples and batches must be picklable, their tensors without gradients (detach()); or use loader_threads=0"
NO_TEMPORARY_FOLDER = "set TMPDIR to a folder that can be written; or use loader_threads=0"
SMALL_SHM = "is there too little room in /dev/shm? Or use loader_threads=0"
ONE_OPTIMIZER = "a run has one optimizer: several, as of a GAN, are not supported"
NO_TERMINAL = "trainers read no terminal: debug without a run: python -c 'import train; train.loss(train.make_model(), batch)'"
FULL_GPU = "use fewer programs and trainers on this GPU; a new run: more micro_batches, or a smaller batch_size"


_NOT_DETERMINISTIC = "does not have a deterministic implementation"
_OTHER_OPERATOR = "use another operator"
_INSTEAD = {  # of operators by a part of their names in the error
    "nll_loss2d": "use cross_entropy(logits.permute(0, 2, 3, 1).flatten(0, 2), labels.flatten()), if it is that of images",
    "adaptive_avg_pool2d": "use AvgPool2d; for torchvision's VGG and AlexNet and images of 224 pixels, model.avgpool = nn.Identity()",
    "ctc_loss": "compute it on the CPU: ctc_loss(log_probs.cpu(), targets.cpu(), ...)",
}


class RekindleError(Exception):
    """What is wrong (`what`), what to do about it (`hint`), and the command line's exit code for it (`code`)."""

    def __init__(self, what: str, hint: str = "", code: int = CONFIG) -> None:
        super().__init__(f"{what}: {hint}" if hint else what)
        self.what, self.hint, self.code = what, hint, code


class SampleError(Exception):
    """An exception of a data set. With one argument, so that it comes through from a process of a DataLoader."""


class StorageAway(SampleError):
    """A sample cannot be read now."""


class NotSent(SampleError):
    """A batch that does not go through to the trainer from the process that loaded it."""


class Aborted(BaseException):
    """The micro-batch is not needed any more. No Exception, so that `except Exception` in a model lets it pass."""


def text_bytes(text: str) -> bytes:
    """For the library and logs. A file name that is no UTF-8 has characters that cannot be encoded."""
    return text.encode(errors="backslashreplace")


def _asks_a_terminal(error: BaseException) -> bool:
    """Whether a debugger or input() found its end. Files have an EOFError with other words."""
    of_debugger = getattr(sys.modules.get("bdb"), "BdbQuit", ())
    return isinstance(error, of_debugger) or (isinstance(error, EOFError) and str(error) == "EOF when reading a line")


def hint_for(error: BaseException) -> str:
    """What to do about an exception of the script."""
    if isinstance(error, (RuntimeError, NotSent)) and "unable to allocate shared memory" in str(error):
        return SMALL_SHM
    # Of Python's tempfile. A process that loads samples sends a batch by a socket in that folder.
    if isinstance(error, NotSent) and "No usable temporary directory found" in str(error):
        return NO_TEMPORARY_FOLDER
    if isinstance(error, NotSent):
        return NOT_SENT
    if isinstance(error, RuntimeError) and _NOT_DETERMINISTIC in str(error):
        return next((hint for operator, hint in _INSTEAD.items() if operator in str(error)), _OTHER_OPERATOR)
    of_torch = getattr(sys.modules.get("torch"), "cuda", None)
    if isinstance(error, SampleError) and error.__cause__ is not None:
        error = error.__cause__
    if _asks_a_terminal(error):
        return NO_TERMINAL
    return FULL_GPU if isinstance(error, getattr(of_torch, "OutOfMemoryError", ())) else IN_THE_LOG


_OWN_NAMES = re.compile(r"^rekindle\._errors\.(SampleError|StorageAway|NotSent): ")


def one_line(error: BaseException) -> str:
    """An exception as a line: the first of its message, and where a syntax error is."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    lines = [_OWN_NAMES.sub("", line) for line in lines]
    if isinstance(error, SyntaxError) and len(lines) > 1:
        return f"{lines[-1].strip()} ({lines[0].strip()})"
    if "DataLoader worker process" in lines[0]:  # with the traceback of the process, whose lines are indented
        places = [i for i, line in enumerate(lines) if line.startswith("  File ")]
        after = lines[places[-1] + 1 :] if places else lines[-1:]
        return next((line for line in after if not line.startswith(" ")), lines[-1]).strip()
    name, words, _ = lines[0].strip().partition(_NOT_DETERMINISTIC)  # behind it is advice that a trainer cannot take
    return name + words


def print_error(error: BaseException, descriptor: int) -> None:
    """The traceback. The `rekindle` command says the last line again, as the reason."""
    lines = traceback.format_exception(error)
    if _asks_a_terminal(error):
        lines.append(f"{one_line(error)}: {NO_TERMINAL}\n")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text_bytes("".join(lines)))


def are_several(optimizer: object) -> bool:
    """Whether it has optimizers, at least two. Those of rekindle and torch are told by what they have."""
    values = list(optimizer.values()) if isinstance(optimizer, dict) else optimizer
    if not isinstance(values, (list, tuple)) or len(values) < 2:
        return False
    return all(hasattr(each, "param_groups") or hasattr(each, "options") for each in values)


def in_session() -> bool:
    """Whether somebody types statements, and executes scripts, in this process."""
    return hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")


def end_with_one_line(error: RekindleError) -> None:
    """If nobody catches the error, Python prints it as the command line does, without a traceback, and ends with its
    code. An interactive session goes on, and shows errors in its own way.
    """
    if in_session() or sys.flags.inspect:
        return
    others = sys.excepthook

    def show(kind: type[BaseException], value: BaseException, places: TracebackType | None) -> None:
        if value is not error:
            others(kind, value, places)
            return
        print(f"rekindle: {error}", file=sys.stderr)
        sys.exit(error.code)  # Python heeds it here, too

    sys.excepthook = show


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether it has two parameters by position that have no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of some functions in C
        return False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in by_position and each.default is each.empty for each in parameters) == 2


def first_parameter(function: Callable[..., Any]) -> str:
    """Its name. Empty if nobody knows."""
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return ""


def can_take(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments. True if nobody knows."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some functions in C
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
