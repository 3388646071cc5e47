"""Records of options. Their constructors say what to do in place of arguments that torch has."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from rekindle._errors import USAGE, RekindleError, end_with_one_line


_Self = TypeVar("_Self", bound="Record")


class Record:
    """The base of dataclasses."""

    _instead: ClassVar[dict[str, str]] = {}  # of arguments that torch has: what to do; {name} is that of the class

    def __new__(cls: type[_Self], *arguments: Any, **named: Any) -> _Self:
        """Errors (RekindleError): an argument that there is not. Classes of a script have arguments of their own."""
        if not cls.__module__.startswith("rekindle."):
            return super().__new__(cls)
        if arguments and (name := cls._name_of_torch(arguments[0])):
            named = {name: arguments[0], **named}
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for name in named:
            if name not in names:
                hint = cls._instead.get(name, "it has " + ", ".join(names)).format(name=cls.__name__)
                error = RekindleError(f"rekindle.{cls.__name__} has no argument {name}", hint, USAGE)
                end_with_one_line(error)  # as run() does
                raise error
        return super().__new__(cls)

    @staticmethod
    def _name_of_torch(first: Any) -> str:
        """The name of a first argument that torch has and a record has not. Otherwise empty."""
        return ""
