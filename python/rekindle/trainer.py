"""The program of a trainer, which a worker starts with its options (task/options.hpp, python_trainer).

With `--spare FOLDER OPTIONS...` it waits until it gets the rest of its options, the name. With
`--describe FOLDER SCRIPT SEED OPTIONS ARGUMENTS...` it says what the script would train, and with `--evaluate FOLDER
SCRIPT JOB ARGUMENTS...` how good it is, see app/script.hpp. The script always runs as __main__ up to its
rekindle.run(), with its own arguments.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import linecache
import mmap
import os
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn

from rekindle import _call
from rekindle._errors import CONFIG, GAVE_UP, USAGE, RekindleError, hint_for, one_line, print_error, text_bytes
from rekindle._process import (
    descriptors,
    die_with_parent,
    end_children,
    end_if_forked,
    end_process,
    ignore_group_signals,
    let_terminate_end,
    private_descriptors,
    set_oom_score,
    wait_for_threads,
)
from rekindle._script_folder import folder_behind, look_in, package_name

_WORKERS_DESCRIPTORS = {3, 4}  # inherited: the socket to the worker, and its lifeline
_NAME_DESCRIPTOR = 5  # inherited by a spare
_LOCAL_RANK = "LOCAL_RANK"  # what a script computes must not depend on it


def run_script(
    folder: str, script: str, arguments: list[str], on_call: Callable[[_call.Call], None],
    on_error: Callable[[BaseException], NoReturn],
) -> NoReturn:  # fmt: skip
    """Runs a script as `python script arguments` would, with its modules in `folder`.

    `on_call` gets the arguments of its rekindle.run(), `on_error` what that raises, or the script before it.
    """
    _call.on_call, _call.on_error = on_call, on_error
    let_terminate_end()
    try:
        _run_as_main(folder, script, arguments)
    except BaseException as error:
        on_error(error)


def _run_as_main(folder: str, script: str, arguments: list[str]) -> NoReturn:
    original = os.path.join(folder, os.path.basename(script))  # `script` may be a copy of it in the run directory
    sys.argv = [original, *arguments]
    look_in(folder)
    folder = folder_behind(original)
    look_in(folder)
    module = types.ModuleType("__main__")
    module.__file__ = original
    module.__package__ = package_name(folder)  # for `from . import` in a script of a package
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    with open(script, "rb") as file:
        text = file.read()
    # The name that libraries find the script's folder by (Hydra, dotenv), beside __file__.
    code = compile(text, original, "exec", dont_inherit=True)  # not this file's `from __future__`
    lines = importlib.util.decode_source(text).splitlines(keepends=True)
    linecache.cache[original] = (len(text), None, lines, original)  # for tracebacks: the original may have been edited since
    exec(code, module.__dict__)
    wait_for_threads()
    raise RekindleError(f"{script} ended without a call of rekindle.run()", "call it at the end of the script")


def _go_where_it_was_started(job: dict[str, Any]) -> None:
    """Paths in a script are relative to this folder."""
    try:
        os.chdir(job.get("script_started_in") or ".")
    except OSError as error:
        print(f"rekindle: warning: the run was started in another folder: {error}", file=sys.stderr)


Say = Callable[[dict[str, Any]], None]  # writes one line of JSON


def answer_question(
    folder: str, script: str, arguments: list[str], key: int, make_answer: Callable[[_call.Call, Say], dict[str, Any]],
    run_again: Callable[[_call.Call], list[str]] = lambda _: [],
) -> NoReturn:  # fmt: skip
    """Runs a script, prints one line of JSON about its call, and ends the process.

    `key`: of the random numbers that the script draws. `make_answer` may print lines before that. `run_again`: the words
    of the program that answers in place of this one, or none.
    """
    die_with_parent()  # the script may hang
    process = os.getpid()
    answer_fd, errors_fd = os.dup(1), os.dup(2)  # the script may have another sys.stderr, or another descriptor 2
    private_descriptors.update({answer_fd, errors_fd})
    os.dup2(2, 1)  # what the script prints is no answer

    def say(content: dict[str, Any]) -> None:
        with os.fdopen(answer_fd, "w", closefd=False) as file:
            file.write(json.dumps(content) + "\n")

    def answer(content: dict[str, Any], code: int = 0) -> NoReturn:
        end_if_forked(process)
        sys.stdout.flush()
        sys.stderr.flush()
        say(content)
        end_process(code)

    def on_call(call: _call.Call) -> NoReturn:
        if (words := run_again(call)) and os.getpid() == process:
            sys.stdout.flush()
            sys.stderr.flush()
            end_children()
            os.dup2(answer_fd, 1)
            os.execv(sys.executable, words)
        answer(make_answer(call, say))

    def on_error(error: BaseException) -> NoReturn:
        if isinstance(error, RekindleError):
            answer({"error": {"code": error.code, "what": error.what, "hint": error.hint}})
        if isinstance(error, SystemExit):
            answer({"error": {"code": USAGE, "what": f"{script} left with {error.code!r} before its rekindle.run()",
                              "hint": "what a script decides has to come after run(), which trainers do not return from"}},
                   USAGE)  # fmt: skip
        for stream in sys.stdout, sys.stderr:
            with contextlib.suppress(Exception):  # they may be the script's own, or None
                stream.flush()
        print_error(error, errors_fd)
        end_if_forked(process)
        end_process(1)

    os.environ.pop(_LOCAL_RANK, None)  # one of the user's environment
    try:
        _prepare_torch(key)
    except BaseException as error:
        on_error(error)
    run_script(folder, script, arguments, on_call, on_error)


def describe(folder: str, script: str, seed: str, given: dict[str, str], arguments: list[str]) -> NoReturn:
    """Says what the script would train, see app/script.hpp. `seed`: of the command line, or empty. `given`: other options
    of it.

    The script may split its data at random, so it draws the numbers that it draws in a trainer. The seed of its call is
    known only then: if that is another one, the script is run once more.
    """
    from rekindle import _library

    key = _library.load().rk_initial_key(int(seed or 1))
    words, folder_now = [sys.executable, *sys.orig_argv[1:]], os.getcwd()

    def make_answer(call: _call.Call, _: Say) -> dict[str, Any]:
        from rekindle import _describe

        return _describe.describe(call, key, given)

    def run_again(call: _call.Call) -> list[str]:
        wanted = call.options.get("seed", "1")
        words[-2 - len(arguments)] = wanted
        if seed or not wanted.isdigit() or wanted == "1":
            return []
        os.chdir(folder_now)  # the script may have left it
        return words

    answer_question(folder, script, arguments, key, make_answer, run_again)


def evaluate(folder: str, script: str, job: dict[str, Any], arguments: list[str]) -> NoReturn:
    """Computes loss and metrics of the tensors in stdin, a .safetensors file, on the script's test samples."""
    from rekindle import _library

    tensors = mmap.mmap(0, 0, access=mmap.ACCESS_COPY)
    _go_where_it_was_started(job)
    key = _library.load().rk_initial_key(job["seed"])  # as in a trainer: the script may split its data at random

    def make_answer(call: _call.Call, say: Say) -> dict[str, Any]:
        from rekindle import _evaluation

        said = time.monotonic()

        def on_progress(done: int, of: int) -> None:
            nonlocal said
            if time.monotonic() - said >= 1:
                said = time.monotonic()
                say({"evaluated": done, "of": of})

        return _evaluation.evaluate(call, job, tensors, on_progress)

    answer_question(folder, script, arguments, key, make_answer)


def _prepare_torch(key: int) -> None:
    """Seeds the generators before the script runs, and takes away what a script must not call."""
    try:
        from rekindle._random import check_torch, seed_all
    except ModuleNotFoundError as error:
        raise RekindleError(f"{sys.executable} has no {error.name}", "pip install torch", CONFIG) from error
    check_torch()
    seed_all(key)
    import torch.distributed

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise RekindleError(
            "the script calls init_process_group()", "leave it out: rekindle's trainers add their gradients themselves", CONFIG
        )

    torch.distributed.init_process_group = refuse


def train(words: list[str]) -> NoReturn:
    """Trains until the run ends, and ends the process."""
    from rekindle import _library

    library = _library.load()
    before = descriptors() - _WORKERS_DESCRIPTORS
    trainer = library.rk_open(*_library.arguments(words))
    if not trainer:
        os._exit(library.rk_exit_code())
    private_descriptors.update(descriptors() - before)  # that of the log is the library's
    os.environ.pop(_LOCAL_RANK, None)  # the library has read it

    process = os.getpid()

    def give_up(error: BaseException) -> NoReturn:
        end_if_forked(process)
        for line in "".join(traceback.format_exception(error)).splitlines():
            library.rk_log(1, text_bytes(line))
        sys.stderr.flush()
        code, what, hint = GAVE_UP, f"{job['script']}: {one_line(error)}", hint_for(error)
        if isinstance(error, RekindleError):
            code, what, hint = error.code, error.what, error.hint
        end_process(library.rk_give_up(trainer, code, text_bytes(what), text_bytes(hint)))

    job = json.loads(library.rk_job(trainer))
    _go_where_it_was_started(job)
    sys.stdout.reconfigure(line_buffering=True)

    def on_call(call: _call.Call) -> None:
        from rekindle import _task

        end_if_forked(process)
        code = _task.train(library, trainer, job, call)
        sys.stdout.flush()
        sys.stderr.flush()
        end_process(code)

    try:
        _prepare_torch(library.rk_initial_key(job["seed"]))
    except BaseException as error:
        give_up(error)
    run_script(job["script_folder"], job["script"], job["script_arguments"], on_call, give_up)


def wait_as_spare(folder: str, words: list[str]) -> NoReturn:
    """Imports torch, and becomes a trainer as soon as the worker gives it a name and the variables of this trainer.
    Ends if the worker ends.
    """
    die_with_parent()
    ignore_group_signals()
    look_in(folder)
    with contextlib.suppress(ImportError):
        from rekindle import _task  # noqa: F401
    usual = set_oom_score("500")  # in want of memory, the kernel ends a spare before any trainer
    with os.fdopen(_NAME_DESCRIPTOR) as file:
        lines = file.read().splitlines()  # the worker closes its end at once
    if len(lines) < 2:
        os._exit(0)
    name, *variables = lines
    for variable in variables:
        key, _, value = variable.partition("=")
        os.environ[key] = value  # the library reads it, too
    set_oom_score(usual)
    train([sys.argv[0], *words, "--name", name])


def main() -> NoReturn:
    if len(sys.argv) > 2 and sys.argv[1] == "--spare":
        wait_as_spare(sys.argv[2], sys.argv[3:])
    if len(sys.argv) > 5 and sys.argv[1] == "--describe":
        describe(sys.argv[2], sys.argv[3], sys.argv[4], json.loads(sys.argv[5]), sys.argv[6:])
    if len(sys.argv) > 4 and sys.argv[1] == "--evaluate":
        evaluate(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), sys.argv[5:])
    train(sys.argv)
