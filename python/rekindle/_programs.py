"""The C++ programs and the library of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rekindle._errors import RekindleError

PACKAGE = Path(__file__).parent


def program(name: str) -> str:
    """The path of a program: in bin/ of the package, or in a build tree in the folder two above it."""
    package = Path(os.path.abspath(PACKAGE))  # not resolved: in a build tree the files here are links
    for folder in (package / "bin", package.parent.parent):
        if (folder / name).is_file():
            return str(folder / name)
    raise RekindleError(f"the program {name} is not in {package}", "is the package complete?")


def environment(python: str = "") -> dict[str, str]:
    """The environment of a program that starts interpreters: `python`, or this one."""
    return {**os.environ, "REKINDLE_PYTHON": python or sys.executable}
