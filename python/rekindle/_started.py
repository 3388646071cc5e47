"""Where this process was when it imported rekindle, and the arguments of its script: the script may change both before its
run(). The processes of the run begin in that folder and with these arguments, because they execute the whole script.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

from rekindle._errors import CONFIG, RekindleError, in_session


def given_to_python(words: Sequence[str]) -> tuple[str, list[str]]:
    """The script or the module of -m in a command line of python, and the arguments behind it. Neither: empty."""
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "-" or not word.startswith("-"):
            return word, rest
        if word == "--check-hash-based-pycs":
            rest = rest[1:]
        letter = next((each for each in word if each in "cmWX"), "") if word[1] != "-" else ""  # of options with a value
        if not letter:
            continue
        value = word.partition(letter)[2] or (rest.pop(0) if rest else "")
        if letter in "cm":
            return (value, rest) if letter == "m" else ("", [])
    return "", []


# Programs of Python that execute a script in another namespace called __main__ than that of sys.modules, which is their own.
_PROFILERS = "cProfile", "profile", "trace"


def variables_of_script() -> dict[str, Any]:
    """Its module's."""
    main = vars(sys.modules["__main__"])
    frame = sys._getframe() if getattr(main.get("__spec__"), "name", "") in _PROFILERS else None
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return frame.f_globals
        frame = frame.f_back
    return main


def _arguments() -> list[str]:
    """Those that python was given, if it was given this script: sys.argv may have fewer by now."""
    variables = variables_of_script()
    spec, file = variables.get("__spec__"), variables.get("__file__") or ""
    named, behind = given_to_python(sys.orig_argv)
    if _same_file(named, file) if spec is None else named == spec.name.removesuffix(".__main__"):
        return behind
    # A kernel of a notebook has arguments of its own, unless it executes the script by %run.
    of_kernel = hasattr(builtins, "__IPYTHON__") and spec is None and not _same_file(sys.argv[0], file)
    return [] if of_kernel else sys.argv[1:]


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # there is none
        return False


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


class Start(NamedTuple):
    main: ModuleType | None
    folder: str | None  # None: it was removed before
    arguments: list[str]


def now() -> Start:
    return Start(sys.modules.get("__main__"), _folder(), _arguments())


start = now()


def of_script() -> Start:
    # An interactive session executes one script after the other, each as another __main__, or as the same one (IPython).
    return start if sys.modules.get("__main__") is start.main and not in_session() else now()


def from_start(path: str) -> str:
    """A path that the script names now, for a process that begins where the script was started."""
    here = _folder()
    if not path or here == of_script().folder:
        return path
    if here is None:
        raise RekindleError("the current folder was removed", "os.chdir() to another one before run()", CONFIG)
    return os.path.abspath(path)
