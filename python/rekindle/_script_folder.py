"""Where a script's modules are: beside it, and if it is part of a package, in the folder above the package."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any


def package_of(folder: str) -> tuple[str, str]:
    """The name of the package whose folder this is, with dots, and the folder above it. No package: "" and `folder`."""
    names: list[str] = []
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder).isidentifier():
        folder, name = os.path.split(folder)
        names.insert(0, name)
    return ".".join(names), folder


# The package of a script that `python -m` runs, for trainers of this machine. Its folders need have no __init__.py.
PACKAGE_VARIABLE = "REKINDLE_PACKAGE"


def package_name(folder: str) -> str | None:
    """The __package__ of a script in `folder`, in which `from . import` looks."""
    of_m = os.environ.get(PACKAGE_VARIABLE, "")
    if of_m and folder.endswith(os.sep + of_m.replace(".", os.sep)):
        return of_m
    return package_of(folder)[0] or None


def modules_folder(folder: str) -> str:
    """The folder of all modules that belong to a script in `folder`: that of its outermost package, or `folder`."""
    package, above = package_of(folder)
    return os.path.join(above, package.partition(".")[0]) if package else folder


def look_in(folder: str) -> None:
    """Finds modules beside the script first, as `python script` does. Its package comes last, because there may be other
    folders beside it, with names of installed modules.
    """
    package, above = package_of(folder)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    if package and above not in sys.path:
        sys.path.append(above)


def folder_behind(script: str) -> str:
    """The folder of a script; of a link, that of the script behind it, where `python link` finds modules."""
    return os.path.dirname(os.path.realpath(script) if os.path.islink(script) else script)


def of_m(script: Mapping[str, Any]) -> tuple[str, str]:
    """Under `python -m folder.script`, the folder from which the script's name counts, and the name of its package,
    whose folders need have no __init__.py; otherwise empty. `script`: the variables of its module.
    """
    spec = script.get("__spec__")
    if spec is None or not script.get("__file__"):
        return "", ""
    folder, package = os.path.dirname(os.path.abspath(script["__file__"])), spec.parent or ""
    for _ in filter(None, package.split(".")):
        folder = os.path.dirname(folder)
    return folder, package
