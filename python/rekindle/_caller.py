"""Who calls run(): a script that the trainers can execute up to this call, and nobody else."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

from rekindle._errors import USAGE, RekindleError, in_session
from rekindle._started import variables_of_script

# A variable of the script that has called run(): the code that did so. An interactive session may run a script again, as
# another __main__ or as the same one.
_CALLED = "__rekindle_run__"


def _frames() -> Iterator[FrameType]:
    """From the caller outwards."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def check_caller() -> None:
    """Refuses a test of pytest. A program that imports the script, for its model, must not begin the training, either."""
    for frame in _frames():
        name = frame.f_globals.get("__name__") or ""
        if name.startswith("_pytest."):
            advice = "start the script with subprocess: trainers would execute all tests"
            raise RekindleError("run() is called in a test of pytest", advice, USAGE)
        # The innermost module decides: debuggers and the like are modules, too, and run the script as __main__.
        if frame.f_code.co_name == "<module>":
            if name != "__main__":
                advice = 'put it under if __name__ == "__main__":, or into a function'
                raise RekindleError(f"run() is called while {name} is imported", advice, USAGE)
            return


def check_file(script: str, folder: str | None) -> None:
    """`folder`: that of a script with a relative path."""
    path = pathlib.Path(folder or "", script)
    if path.is_file():
        return
    if any(above.is_file() for above in path.parents):
        raise RekindleError(f"run() needs a script that is a file, and {script} is in an archive", "unpack it", USAGE)
    raise RekindleError(
        f"run() needs a script, and there is no file {script}", "write the training into a file: trainers run it too", USAGE
    )


def check_first_call(script: str) -> None:
    """Trainers execute the script up to its first run(), and would train that in place of a later one."""
    own = variables_of_script()
    # The outermost one: the script, or what was typed.
    code = ([frame.f_code for frame in _frames() if frame.f_globals is own] or [None])[-1]
    before = own.get(_CALLED)
    if before is not None:
        if before is code or not in_session():
            raise RekindleError("the script calls run() a second time", "start the script once for each run", USAGE)
        if not (code is not None and _is_of(code, script)) and not _is_again(before, code):
            advice = "trainers execute the file up to its first run(): execute the whole file, as by %run"
            raise RekindleError("this session has called run() before", advice, USAGE)
    own[_CALLED] = code or True


def _is_of(code: CodeType, script: str) -> bool:
    return os.path.realpath(code.co_filename) == os.path.realpath(script)


def _is_again(before: object, code: CodeType | None) -> bool:
    """Whether it is the code of the same cell. The statements of different cells may be equal, but not the file's name."""
    return isinstance(before, CodeType) and code is not None and before == code and before.co_filename == code.co_filename
