"""What a run left behind: status, metrics, checkpoints, and its tensors back in a module."""

from __future__ import annotations

import json
import mmap
import os
import re
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rekindle._errors import RekindleError
from rekindle._programs import environment, program

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import nn


def _ask(*words: str) -> str:
    """The output of a command of the C++ program."""
    done = subprocess.run([program("rekindle"), *words], env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise RekindleError(done.stderr.strip().removeprefix("rekindle: "), code=done.returncode)
    return done.stdout


_LONGEST_LINE = 1 << 20
_CHECKPOINT = re.compile(r"step-\d{10,}\.t\d+\.g\d+")  # a damaged one has another name


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file of lines of JSON.

    A line that is no object is left out: a process may have died while it wrote. Errors: it is a link, a pipe or the
    like, which somebody else may have put there; a line without an end.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RekindleError(f"{path} cannot be opened", error.strerror) from None
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise RekindleError(f"{path} is not a regular file")
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise RekindleError(f"{path} has a line of more than {_LONGEST_LINE} bytes")
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def _cannot_read(error: OSError) -> RekindleError:
    return RekindleError(f"{error.filename} cannot be read", error.strerror)


class Run:
    """A run directory, live or complete."""

    def __init__(self, run_dir: str | os.PathLike[str]) -> None:
        self.path = Path(run_dir)

    def __repr__(self) -> str:
        return f"rekindle.Run({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    def status(self) -> dict[str, Any]:
        """What the run is doing: the object of `rekindle status --json`, with "state", "step", "trainers" and so on.

        Errors (RekindleError): the directory has no status that can be read.
        """
        return json.loads(_ask("status", "--json", str(self.path)))

    def metrics(self, lines: str = "all") -> dict[str, Any]:
        """metrics.jsonl as columns by name, numpy arrays of shape [lines]; a value that a line has not is None or NaN.

        lines: "steps" ("step", "loss", "lr", "step_ms", ...), "evaluations" ("step", "test_loss", "test_accuracy", ...), or
        "all", in the order in which they were written. Names that end with _ms are in milliseconds.
        pandas.DataFrame(run.metrics()) makes a table of them. Errors (RekindleError): other `lines`; the file is missing,
        is no regular file, or has a line of more than a MiB.
        """
        import numpy

        kinds = {"all": (True, False), "steps": (False,), "evaluations": (True,)}
        if lines not in kinds:
            raise RekindleError(f"lines is {lines!r}", 'give "all", "steps" or "evaluations"')
        chosen = [line for line in _lines(self.path / "metrics.jsonl") if ("test_loss" in line) in kinds[lines]]
        names = list(dict.fromkeys(name for line in chosen for name in line))
        columns = {}
        for name in names:
            values = [line.get(name) for line in chosen]
            numbers = all(value is None or isinstance(value, (int, float)) for value in values)
            whole = numbers and all(isinstance(value, int) for value in values)
            columns[name] = numpy.array(values, dtype=int if whole else float if numbers else object)
        return columns

    def checkpoints(self) -> list[Path]:
        """The folders of the committed checkpoints, the oldest first. load() takes each of them.

        Errors (RekindleError): one of them cannot be read.
        """
        folder = self.path / "checkpoints"
        try:
            named = [folder / name for name in os.listdir(folder) if _CHECKPOINT.fullmatch(name)]
            return sorted(each for each in named if not each.is_symlink() and (each / "manifest.json").is_file())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _cannot_read(error) from None


def open(run_dir: str | os.PathLike[str]) -> Run:  # noqa: A001
    """The run in a directory. Errors (RekindleError): there is none."""
    try:
        there = (Path(run_dir) / "run.toml").is_file()
    except OSError as error:
        raise _cannot_read(error) from None
    if not there:
        raise RekindleError(f"{run_dir} is not a run directory", "it has no run.toml")
    return Run(run_dir)


_DTYPES = {"F32": "float32", "F64": "float64", "I64": "int64", "I32": "int32", "U8": "uint8", "BF16": "bfloat16", "F16": "float16"}


def tensors_in(data: mmap.mmap) -> dict[str, torch.Tensor]:
    """The tensors of a .safetensors file, in its memory."""
    import torch

    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, each in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        dtype = getattr(torch, _DTYPES[each["dtype"]])
        begin, end = each["data_offsets"]
        values = torch.frombuffer(data, dtype=dtype, offset=8 + size + begin, count=(end - begin) // dtype.itemsize)
        tensors[name] = values.reshape(each["shape"])
    return tensors


def _read(source: str | os.PathLike[str], *options: str) -> dict[str, torch.Tensor]:
    """The tensors of an export, which stay in a file that has no name any more."""
    return _export(source, *options)[0]


_TEMPORARY = "tensors are copied through a temporary folder: set TMPDIR to one with room for the run's state"


def _export(source: str | os.PathLike[str], *options: str) -> tuple[dict[str, torch.Tensor], Path]:
    """The tensors, and of which checkpoint they are."""
    try:
        temporary = tempfile.TemporaryDirectory()
    except OSError as error:
        raise RekindleError(f"a temporary folder cannot be made: {error.strerror or error}", _TEMPORARY) from None
    with temporary as folder:
        file = Path(folder) / "tensors.safetensors"
        try:
            said = _ask("export", *options, str(Path(source)), str(file))
        except RekindleError as error:
            raise RekindleError(error.what, _TEMPORARY if folder in error.what else error.hint, error.code) from None
        with file.open("rb") as handle:
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
    name = _CHECKPOINT.search(said)
    checkpoint = Path(source) / "checkpoints" / name.group() if name else Path(source)
    return tensors_in(data), checkpoint if checkpoint.is_dir() else Path(source)


def load(
    run_or_checkpoint: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer | None = None,
    best: bool = False,
) -> nn.Module:
    """Fills a module with the newest checkpoint of a run, or with a checkpoint, and returns it.

    Every byte is verified. A moving average takes the place of the parameters, if the run has one. `optimizer`: one for
    the module's parameters, of the class that the run's script made; it gets the state of that optimizer, and the
    parameters are then the trained ones, not their average. `best`: of a run, the checkpoint that keep_best has kept, in
    place of the newest one. The tensors are copied to where those of the module are.
    Errors (RekindleError): no checkpoint, or a damaged one; names, shapes or types that are not the module's (the first
    such tensor is named, and the module is as it was); with `optimizer`, a run that trained with one of rekindle, or an
    optimizer that lacks a parameter or keeps another state (the module is filled then, the optimizer as it was).
    """
    from rekindle._model import fill

    which = ["--best"] if best else []
    if optimizer is None:
        fill(model, _read(run_or_checkpoint, *which))
        return model
    state, checkpoint = _export(run_or_checkpoint, "--with-optimizer", *which)
    fill(model, _read(checkpoint, "--raw"))  # of the same one: the run may go on meanwhile
    from rekindle._optimizer_state import load_state

    manifest = json.loads((checkpoint / "manifest.json").read_text())
    in_order = {each["name"]: state[each["name"]] for each in manifest["tensors"]}  # a .safetensors file has another one
    load_state(optimizer, model, in_order, averaged="ema" in manifest["identity"])
    return model
